"""Alerts of running trainings, ``<tenant>/submissions/<id>/alerts/<digest>.json``: one record for each, create-only."""

from datetime import UTC, datetime
from typing import ClassVar

from pydantic import Field

from ft_assets.records.due_notices import mark_due
from ft_assets.records.submissions import Submission
from ft_resources.canonical import digest
from ft_resources.records import Record
from ft_resources.store import Store


class TrainingAlert(Record):
    """Something that a person should look at while a submission trains."""

    WHAT: ClassVar[str] = "the alert of a training"

    submission: str
    address: str = Field(description="What is being made.")
    attempt: int
    told: str = Field(description="What is wrong, up to which step, and what to do.")
    at: str = Field(description="When it was noticed; UTC, ISO 8601.")


def record_alert(store: Store, submission: Submission, address: str, attempt: int, told: str) -> None:
    """Record and announce an alert, once: a resumed training tells the alerts of its earlier attempts again."""
    path = f"{submission.tenant}/submissions/{submission.id}/alerts/{digest(told)[:16]}.json"
    if store.exists(path):
        return
    mark_due(store, "alert", submission.tenant, path)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    TrainingAlert(submission=submission.id, address=address, attempt=attempt, told=told, at=now).create(store, path)
