"""Jobs that nobody waits for: found by their labels, and collected, closed or ended. A pure plan over what is there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ft_resources.kubernetes import names
from ft_resources.kubernetes.objects import Object, ended, seconds

Deed = Literal["collect", "close", "end", "stop"]
MARGIN_S = 120.0
"""A worker that has said how it ended is given so long to be gone, and who launched a Job so long to say so."""
UNWANTED_S = 3600.0
"""A Job that nobody seems to want goes on for so long from when that was seen first: its run may be about to be
retried."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """A Job of ours and what the store says of its attempt.

    Args:
        closed_at: when the attempt's end was put on record, in seconds since the epoch; None where it is not.
        collected: whether its place is.
        wanted: whether a run or an open submission still needs the artifact.
        unwanted_s: for how long it has been seen to be wanted by nobody.
    """

    job: Object
    closed_at: float | None
    collected: bool
    wanted: bool
    unwanted_s: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Orphan:
    """A Job and what to do with it: ``collect`` log and record of an ended one, ``close`` an attempt whose worker ended
    without a word, ``end`` a Job whose attempt is over, ``stop`` one that nobody wants any more."""

    address: str
    attempt: int
    deed: Deed


def plan_orphans(standings: Sequence[Standing], now: float) -> list[Orphan]:
    """What to do with these Jobs at ``now``, in seconds since the epoch. A Job that is wanted and goes on is adopted by
    leaving it alone: its run attaches when it is retried, and finds the artifact if it comes later."""
    found = [(each, _deed(each, now)) for each in standings]
    return [
        Orphan(address=address_of(each.job), attempt=attempt_of(each.job), deed=deed)
        for each, deed in found
        if deed is not None
    ]


def address_of(job: Object) -> str:
    """The address that a Job works at; empty for one that does not say."""
    return str(job["metadata"].get("annotations", {}).get(names.ADDRESS, ""))


def attempt_of(job: Object) -> int:
    return int(job["metadata"]["labels"][names.ATTEMPT])


def _deed(standing: Standing, now: float) -> Deed | None:
    job = standing.job
    if not address_of(job) or "deletionTimestamp" in job["metadata"]:
        return None
    age_s = now - (seconds(job["metadata"].get("creationTimestamp")) or now)
    if age_s < MARGIN_S:
        return None
    if ended(job):
        if standing.closed_at is None:
            return "close"
        return None if standing.collected else "collect"
    if standing.closed_at is not None:
        # Its pods may still be on their way out, and whoever waits for them is about to look how they ended.
        return "end" if now - standing.closed_at > MARGIN_S else None
    return "stop" if standing.unwanted_s >= UNWANTED_S and not standing.wanted else None


def note_unwanted(standings: Sequence[Standing], before: Mapping[str, float], now: float) -> dict[str, float]:
    """Since when each Job is known to be wanted by nobody, by its uid: as ``before`` says, or from ``now`` on."""
    unwanted = [str(each.job["metadata"]["uid"]) for each in standings if not each.wanted]
    return {uid: min(now, before.get(uid, now)) for uid in unwanted}
