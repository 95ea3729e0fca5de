"""Pauses of submissions: create-only records of who paused an open submission or resumed it, and why.

``<tenant>/submissions/<id>/pauses/<seq>.json`` holds the changes; the last one is the current state.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar, Literal

from pydantic import Field

from ft_assets.records.submissions import Submission
from ft_resources.records import Record
from ft_resources.store import Store


class PauseChange(Record):
    """A person paused a submission, or resumed it."""

    WHAT: ClassVar[str] = "the record of a pause"

    kind: Literal["paused", "resumed"]
    actor: str = Field(description="Who paused or resumed it.")
    reason: str = Field(default="", description="Why, where it was said.")
    at: str = Field(description="UTC, ISO 8601.")


@dataclass(frozen=True, kw_only=True)
class Pauses:
    """How a submission stands: ``changes`` is the number of its records, ``last`` the newest."""

    changes: int = 0
    last: PauseChange | None = None

    @property
    def standing(self) -> PauseChange | None:
        """The pause that holds it now, None if it may go on."""
        return self.last if self.last is not None and self.last.kind == "paused" else None

    @property
    def resumed(self) -> int:
        """How often it was resumed. Runs launched before the last resumption do not count afterwards."""
        return self.changes // 2

    @property
    def resumed_at(self) -> str:
        """When it was resumed last; "" if never, and while it is paused."""
        return self.last.at if self.last is not None and self.last.kind == "resumed" else ""


def read_pauses(store: Store, submission: Submission) -> Pauses:
    """Whether the submission is paused. Raises CorruptArtifact for a record that cannot be read."""
    # Most were never paused, and a bucket answers for one object faster than it lists a folder.
    if not store.exists(_path(submission, 1)):
        return Pauses()
    folder = _folder(submission)
    names = store.names(folder)
    return Pauses(changes=len(names), last=PauseChange.get(store, f"{folder}/{names[-1]}") if names else None)


def record_pause(store: Store, submission: Submission, *, actor: str, reason: str) -> tuple[PauseChange, bool]:
    """Record a pause. Returns the pause in force, and False if there was one already."""
    found = read_pauses(store, submission)
    if found.standing is not None:
        return found.standing, False
    return _append(store, submission, found, PauseChange(kind="paused", actor=actor, reason=reason, at=_now()))


def record_resumption(store: Store, submission: Submission, *, actor: str) -> bool:
    """Record that it goes on; False if it was not paused."""
    found = read_pauses(store, submission)
    if found.standing is None:
        return False
    return _append(store, submission, found, PauseChange(kind="resumed", actor=actor, at=_now()))[1]


def _append(store: Store, submission: Submission, found: Pauses, change: PauseChange) -> tuple[PauseChange, bool]:
    """Pauses and resumptions alternate, so a concurrent writer of this number recorded the same kind of change."""
    path = _path(submission, found.changes + 1)
    created = change.create(store, path)
    return (change, True) if created else (PauseChange.get(store, path), False)


def _path(submission: Submission, number: int) -> str:
    return f"{_folder(submission)}/{number:06d}.json"


def _folder(submission: Submission) -> str:
    return f"{submission.tenant}/submissions/{submission.id}/pauses"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
