"""What finished work leaves at an address: a pure plan over a listing and the attempts' records.

An attempt's small records are kept for ever: usage is billed by attempt number, which must not be reused, and a sweep
is decided by how its trials ended.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ft_assets.settings.retention import Leftovers
from ft_resources.store import Entry

RECORDS = frozenset(
    {"claim.json", "spec.json", "wait.json", "launch.json", "place.json", "progress.json", "outcome.json", "stop.json"}
)
# Folders of an attempt that a later attempt resumes from.
SAVED = frozenset({"saves", "books", "kept"})
_NOT_WRITERS = frozenset({"attempts", "erased", "manifest.json"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """An attempt as its records show it. Times are UTC.

    Args:
        seen_at: last heartbeat, or the claim if there was none.
        ended_at: None while no ending is recorded.
        running: whether its launcher says so or cannot be asked (a Job on a cluster may queue for days).
        counted: whether its usage is billed, or never will be.
    """

    number: int
    seen_at: datetime
    ended_at: datetime | None
    running: bool = False
    counted: bool = True

    def lives(self, now: datetime, patience: timedelta) -> bool:
        """Whether its worker may be alive."""
        return self.ended_at is None and (self.running or now - self.seen_at <= patience)


@dataclass(frozen=True, kw_only=True)
class Place:
    """The state of an address.

    Args:
        entries: all objects below it.
        writer: the folder that the manifest names; "" without a manifest.
        attempts: empty for artifacts that no worker made, such as uploads.
        wanted: what waits for it; "" if nothing does.
        again: whether it may be requested again.
    """

    address: str
    entries: Sequence[Entry]
    writer: str = ""
    attempts: Sequence[Trace] = ()
    wanted: str = ""
    again: bool = True


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """Objects that are removed together, and why; paths in order of removal."""

    address: str
    what: str
    why: str
    paths: tuple[str, ...]
    size: int


@dataclass(frozen=True, kw_only=True)
class PlacePlan:
    """``end`` lists attempts that died unnoticed: their ending is recorded now, their files are removed days later."""

    end: tuple[int, ...] = ()
    drop: tuple[Leftover, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Group:
    what: str
    days: int | None
    why: str
    entries: list[Entry] = field(default_factory=list)


def may_have_leftovers(place: Place, rule: Leftovers, now: datetime) -> bool:
    """Whether the listing alone shows anything old enough to be worth reading the attempts' records."""
    patience = rule.patience_days
    if patience is None:
        return False
    old = timedelta(days=patience)
    return any(now - max(each.modified for each in group.entries) > old for group in _groups(place, rule))


def plan_place(place: Place, rule: Leftovers, now: datetime) -> PlacePlan:
    """The plan. Nothing is removed while an attempt may be alive or unbilled, or something waits for the address."""
    if rule.patience_days is None or place.wanted:
        return PlacePlan()
    patience = timedelta(days=rule.patience_days)
    if any(each.lives(now, patience) for each in place.attempts):
        return PlacePlan()
    dead = tuple(each.number for each in place.attempts if each.ended_at is None)
    if dead or not all(each.counted for each in place.attempts):
        return PlacePlan(end=dead)
    ended = max((each.ended_at for each in place.attempts if each.ended_at), default=None)
    drop = []
    for group in _groups(place, rule):
        last = max([*(each.modified for each in group.entries), *([ended] if ended else [])])
        if group.days is not None and now - last > timedelta(days=group.days):
            # A save's record is removed first, so that no save ever looks complete when it is not.
            paths = sorted((each.path for each in group.entries), key=lambda path: (not path.endswith(".json"), path))
            size = sum(each.size for each in group.entries)
            drop.append(Leftover(address=place.address, what=group.what, why=group.why, paths=tuple(paths), size=size))
    return PlacePlan(drop=tuple(drop))


def _groups(place: Place, rule: Leftovers) -> Iterator[_Group]:
    found: dict[str, _Group] = {}
    for entry in place.entries:
        group = _group_of(place, entry.path.removeprefix(f"{place.address}/").split("/"), rule)
        if group is not None:
            found.setdefault(group.what, group).entries.append(entry)
    yield from found.values()


def _group_of(place: Place, path: Sequence[str], rule: Leftovers) -> _Group | None:
    """The group that an object is removed with; None if it is kept. ``path`` is relative to the address."""
    over = "the artifact exists" if place.writer else "no artifact was produced"
    if path[0] == "attempts" and len(path) > 2:
        if path[2] in SAVED:
            resumable = not place.writer and place.again
            days = rule.saves_days if resumable else rule.attempt_days
            why = "nothing resumed from it" if resumable else over
            return _Group(what=f"saves of attempt {path[1]}", days=days, why=why)
        if place.writer or (len(path) == 3 and path[2] in RECORDS):
            return None
        return _Group(what=f"log and steps of attempt {path[1]}", days=rule.attempt_days, why=over)
    if path[0] in _NOT_WRITERS or path[0] == place.writer or len(path) < 2:
        return None
    why = "another writer finished first" if place.writer else "it has no manifest"
    return _Group(what=f"folder {path[0]}", days=rule.attempt_days, why=why)
