"""Queue alerts: for each tier with ``max_wait_minutes``, when its queue exceeded the limit and when it recovered.

``shared/queue_alerts/<tier>/<seq>.json`` holds the changes, create-only; the last one is the current state.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar, Literal

from pydantic import Field

from ft_assets.control.notices.event import Event
from ft_assets.records.due_notices import Due, mark_due
from ft_assets.settings.keys import SHARED
from ft_assets.settings.notices import EventKind
from ft_resources.canonical import digest
from ft_resources.messages import one_line
from ft_resources.records import Record
from ft_resources.store import Store

FOLDER = f"{SHARED}/queue_alerts"
_NAMED, _EXPLAINED = 20, 5
_LONGEST = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Wait:
    """An open submission without a running job; ``seconds`` since it was submitted or since its last job ended."""

    submission: str
    seconds: float


class QueueChange(Record):
    """The record of a breach or of its end; ``reasons`` by submission, for those that were examined."""

    WHAT: ClassVar[str] = "the record of a queue"

    tier: str
    state: Literal["breach", "recovered"]
    limit_minutes: float
    depth: int
    longest_s: float
    submissions: tuple[str, ...]
    at: str
    reasons: dict[str, str] = Field(default_factory=dict)


def change(before: QueueChange | None, tier: str, limit_minutes: float, waits: Sequence[Wait]) -> QueueChange | None:
    """The change to record, None if nothing changed since ``before``. A breach is one change, however long it lasts."""
    longest = max((wait.seconds for wait in waits), default=0.0)
    broken = longest > 60 * limit_minutes
    if broken == (before is not None and before.state == "breach"):
        return None
    first = sorted(waits, key=lambda wait: -wait.seconds)[:_NAMED]
    return QueueChange(
        tier=tier,
        state="breach" if broken else "recovered",
        limit_minutes=limit_minutes,
        depth=len(waits),
        longest_s=longest,
        submissions=tuple(wait.submission for wait in first),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def record_waits(
    store: Store,
    tier: str,
    limit_minutes: float,
    waits: Sequence[Wait],
    why: Callable[[str], str] = lambda submission: "",
) -> QueueChange | None:
    """Record and announce a change; None if nothing changed or another caller was first. Raises CorruptArtifact.

    ``why`` returns why a submission waits ("" if unknown). It is called for a few of the longest waits, and only when a
    breach is recorded.
    """
    # Tier names are free text.
    folder = f"{FOLDER}/{digest({'tier': tier})[:16]}"
    names = store.names(folder)
    before = QueueChange.find(store, f"{folder}/{names[-1]}") if names else None
    found = change(before, tier, limit_minutes, waits)
    if found is None:
        return None
    if found.state == "breach":
        asked = {each: one_line(why(each))[:_LONGEST] for each in found.submissions[:_EXPLAINED]}
        found = found.model_copy(update={"reasons": {each: reason for each, reason in asked.items() if reason}})
    path = f"{folder}/{len(names) + 1:06d}.json"
    mark_due(store, "queue", SHARED, path)
    return found if found.create(store, path) else None


def queue_event(store: Store, due: Due) -> Event | None:
    """The event for a change."""
    found = QueueChange.find(store, due.path)
    if found is None:
        return None
    limit = f"{found.limit_minutes:g} minutes"
    if found.state == "breach":
        title = f"tier {found.tier}: {found.depth} queued, the longest for {found.longest_s / 60:.0f} minutes"
        remedy = (
            "Check the reason with `ft status`, and on a cluster with `kubectl get workloads -A`; add nodes or quota."
        )
    else:
        title, remedy = f"tier {found.tier}: no work is queued longer than {limit} anymore", ""
    return Event(
        id=due.id,
        kind=EventKind.QUEUE,
        tenant=SHARED,
        subject=found.tier,
        title=one_line(title),
        at=found.at,
        facts={"tier": one_line(found.tier), "state": found.state, "limit": limit, "depth": str(found.depth)},
        details=tuple(": ".join(filter(None, (each, found.reasons.get(each)))) for each in found.submissions),
        remedy=remedy,
    )
