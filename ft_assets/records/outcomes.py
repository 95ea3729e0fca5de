"""Outcomes of requests: what users, judges and graders said about single answers, and their latency.

``<tenant>/outcomes/<line>/<day>/<hhmm>-<server>-<number>.jsonl`` holds what one server saw in one minute, an outcome a
line. It names requests and holds no text of them. Outcomes are kept for ``KEPT_DAYS``, and as long as a rollout needs.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import ClassVar

from pydantic import Field, model_validator

from ft_assets.records.minute_logs import MinuteLog, lines_in, prune, read_days
from ft_assets.settings.rollout_settings import Kind
from ft_resources.records import Record
from ft_resources.store import Store

FOLDER = "outcomes"
KEPT_DAYS = 30
MOST_A_MINUTE = 20_000
"""Maximum of one line, server and minute, so that an object stays a few megabytes."""
_MOST_BYTES = 16 << 20

FAILED_S = 86_400.0
"""The latency of an answer that failed."""
_FEEDBACK = ("thumbs", "judge")


class Outcome(Record):
    """One outcome of one answer."""

    WHAT: ClassVar[str] = "the outcome"

    model: str = Field(min_length=1, description="The adapter as servers know it: line@digest, 16 digits of it.")
    request: str = Field(min_length=1, max_length=100, description="Id of the request.")
    kind: Kind
    value: float = Field(
        ge=0.0,
        description="thumbs: 1 for up; judge: its score; latency: seconds, a day for an answer that failed; "
        "refusal: 1 for refused; format: 1 for valid. All but latency are at most 1.",
    )
    at: str = Field(description="When it became known; UTC, ISO 8601 with milliseconds.")

    @model_validator(mode="after")
    def _in_range(self) -> "Outcome":
        if self.kind != "latency" and self.value > 1.0:
            raise ValueError(f"{self.kind} is between 0 and 1")
        return self

    @property
    def line(self) -> str:
        return self.model.partition("@")[0]


class OutcomeLog(MinuteLog):
    """A server's outcomes."""

    def __init__(self, store: Store, server: str) -> None:
        super().__init__(store, FOLDER, server, most=MOST_A_MINUTE, most_bytes=_MOST_BYTES)

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome; it is written with the first ``flush`` after its minute."""
        self.keep(outcome.line, outcome.at, outcome.data())


def read_outcomes(store: Store, line: str, since: str, until: str) -> Iterator[Outcome]:
    """Outcomes of a line from ``since`` and before ``until`` (ISO 8601), by time; of several of one kind for one
    request and adapter the first. What a user or judge said is given after a whole answer of that time alone: ids are
    sent by clients, who may make them up. Raises CorruptArtifact for an object that cannot be read."""
    seen: set[tuple[str, str, str]] = set()
    answered: set[tuple[str, str]] = set()
    for of_day in read_days(store, FOLDER, line, since, until):
        found = [Outcome.parse(text, path) for path, text in of_day]
        for outcome in sorted(found, key=lambda each: (each.at, each.request)):
            key, answer = (outcome.model, outcome.request, outcome.kind), (outcome.model, outcome.request)
            made_up = outcome.kind in _FEEDBACK and answer not in answered
            if not since <= outcome.at < until or key in seen or made_up:
                continue
            seen.add(key)
            if outcome.kind == "latency" and outcome.value < FAILED_S:
                answered.add(answer)
            yield outcome


def prune_outcomes(store: Store, line: str, before: str) -> int:
    """Delete whole days before ``before`` (ISO 8601); returns the number of objects."""
    return prune(store, FOLDER, line, before)


def lines_with_outcomes(store: Store, tenant: str) -> list[str]:
    return lines_in(store, FOLDER, tenant)


def kept_since(now: datetime) -> str:
    """The oldest day that is kept, for ``prune_outcomes``."""
    return (now - timedelta(days=KEPT_DAYS)).isoformat()
