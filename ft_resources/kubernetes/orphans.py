"""Orphaned Jobs, which no process waits for: found by label, then collected, closed or ended. A pure plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ft_resources.jobs import Job

Deed = Literal["collect", "close", "end", "stop"]
MARGIN_S = 120.0
"""Time for a worker to exit after it reported its ending, and for a launch to be recorded after the Job's creation."""
UNWANTED_S = 3600.0
"""A Job that nothing seems to need may run this long after that was first seen: its run may be about to be retried."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """One of our Jobs, and the state of its attempt in the store.

    Args:
        closed_at: when the attempt's end was recorded, in seconds since the epoch; None if it was not.
        collected: whether its place was recorded.
        wanted: whether a run or an open submission still needs the artifact.
        unwanted_s: seconds since it was first seen that nothing needs it.
    """

    job: Job
    closed_at: float | None
    collected: bool
    wanted: bool
    unwanted_s: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Orphan:
    """A Job and what to do with it: ``collect`` log and record of an ended one, ``close`` an attempt whose worker ended
    without a record, ``end`` a Job whose attempt is over, ``stop`` one that nothing needs any more."""

    address: str
    attempt: int
    deed: Deed


def plan_orphans(standings: Sequence[Standing], now: float) -> list[Orphan]:
    """What to do with these Jobs at ``now``, in seconds since the epoch. A running Job that is still needed is left
    alone: its run attaches when it is retried, or finds the artifact later."""
    found = [(each, _deed(each, now)) for each in standings]
    return [Orphan(address=each.job.address, attempt=each.job.attempt, deed=deed) for each, deed in found if deed]


def _deed(standing: Standing, now: float) -> Deed | None:
    job = standing.job
    if not job.address or job.removing or now - (job.created_at or now) < MARGIN_S:
        return None
    if job.ended:
        if standing.closed_at is None:
            return "close"
        return None if standing.collected else "collect"
    if standing.closed_at is not None:
        # Its pods may still be terminating, and a process that waits for them is about to read how they ended.
        return "end" if now - standing.closed_at > MARGIN_S else None
    return "stop" if standing.unwanted_s >= UNWANTED_S and not standing.wanted else None


def note_unwanted(standings: Sequence[Standing], before: Mapping[str, float], now: float) -> dict[str, float]:
    """Since when nothing needs each Job, by its uid: the time in ``before``, or ``now``."""
    unwanted = [each.job.uid for each in standings if not each.wanted]
    return {uid: min(now, before.get(uid, now)) for uid in unwanted}
