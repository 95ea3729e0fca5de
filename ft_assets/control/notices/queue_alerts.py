"""Waits that are too long: for each tier with ``max_wait_minutes``, when its queue broke it and when it was well again.

``shared/queue_alerts/<tier>/<seq>.json`` holds the changes, create-only; the last one is how it stands.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ft_assets.keys import SHARED
from ft_assets.notices.due import Due, mark_due
from ft_assets.notices.event import Event, one_line
from ft_assets.notices.settings import EventKind
from ft_resources.canonical import canonical_json, digest
from ft_resources.records import find_record
from ft_resources.store import Store

FOLDER = f"{SHARED}/queue_alerts"
_NAMED, _EXPLAINED = 20, 5
_LONGEST = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Wait:
    """An open submission for which nothing runs; ``seconds`` since it was asked for, or since something last ran."""

    submission: str
    seconds: float


class QueueChange(BaseModel):
    """The record of a breach, or of its end. ``reasons`` are by submission, of those that were asked about."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tier: str
    state: Literal["breach", "recovered"]
    limit_minutes: float
    depth: int
    longest_s: float
    submissions: tuple[str, ...]
    at: str
    reasons: dict[str, str] = Field(default_factory=dict)


def change(before: QueueChange | None, tier: str, limit_minutes: float, waits: Sequence[Wait]) -> QueueChange | None:
    """Pure: what is to be recorded, None where it stands as ``before`` says. One breach is one change, however long."""
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
    """Record and announce what changed; None where nothing did, or another caller was first. Raises CorruptArtifact.

    ``why`` tells why a submission waits, empty where nobody can; asked of a few of those that wait longest, and only
    when a breach is recorded.
    """
    # Names of tiers are free text.
    folder = f"{FOLDER}/{digest({'tier': tier})[:16]}"
    names = store.names(folder)
    before = find_record(store, f"{folder}/{names[-1]}", QueueChange, "the record of a queue") if names else None
    found = change(before, tier, limit_minutes, waits)
    if found is None:
        return None
    if found.state == "breach":
        asked = {each: one_line(why(each))[:_LONGEST] for each in found.submissions[:_EXPLAINED]}
        found = found.model_copy(update={"reasons": {each: reason for each, reason in asked.items() if reason}})
    path = f"{folder}/{len(names) + 1:06d}.json"
    mark_due(store, "queue", SHARED, path)
    return found if store.create(path, canonical_json(found.model_dump(mode="json"))) else None


def queue_event(store: Store, due: Due) -> Event | None:
    """What is told of a change."""
    found = find_record(store, due.path, QueueChange, "the record of a queue")
    if found is None:
        return None
    limit = f"{found.limit_minutes:g} minutes"
    if found.state == "breach":
        title = f"tier {found.tier}: {found.depth} wait, the longest for {found.longest_s / 60:.0f} minutes"
        remedy = "See why with `ft status`, and on a cluster with `kubectl get workloads -A`; add nodes or quota."
    else:
        title, remedy = f"tier {found.tier}: nobody waits longer than {limit} any more", ""
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
