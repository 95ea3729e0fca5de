"""Failed Dagster runs: known reasons, and which runs need a notice of their own.

A run for a submission is announced once, with the submission's end. All others need their own notice: runs of one
asset from the UI, backfills of datasets, runs whose code could not even be loaded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ft_assets.records.failures import Failure
from ft_resources.records import Record

RUN_FAILURES = "run_failures"
# Dagster decides about a retry a moment after the failure; if it never does, a notice is sent anyway.
UNDECIDED_FOR = timedelta(minutes=10)


class FailedRun(Record):
    """The record of a run that failed and was launched for no submission."""

    WHAT: ClassVar[str] = "the record of a failed run"

    run: str
    job: str
    partition: str
    tenant: str
    failure: Failure
    at: str


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A failed run as the plan's input; ``retried`` is None while Dagster has not decided."""

    run_id: str
    failed_at: datetime
    retried: bool | None
    of_submission: bool


def plan_failures(seen: Sequence[Seen], now: datetime) -> tuple[list[str], datetime | None]:
    """The runs to announce, and the time of the first run to examine again. Pure.

    ``seen`` is in the order in which they failed.
    """
    tell: list[str] = []
    again: datetime | None = None
    for each in seen:
        undecided = each.retried is None and now - each.failed_at < UNDECIDED_FOR
        if undecided:
            again = again or each.failed_at
        elif not each.retried and not each.of_submission:
            tell.append(each.run_id)
    return tell, again
