"""What work that is over leaves at an address: a pure plan over a listing and what the attempts' records say.

An attempt's small records stay for ever: usage is billed by the number of an attempt, so that none is given twice, and
a sweep is decided by how its trials ended.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ft_assets.retention.settings import Leftovers
from ft_resources.store import Entry

RECORDS = frozenset(
    {"claim.json", "spec.json", "launch.json", "place.json", "progress.json", "outcome.json", "stop.json"}
)
# Of an attempt: what a later one goes on from.
SAVED = frozenset({"saves", "books", "kept"})
_NOT_WRITERS = frozenset({"attempts", "erased", "manifest.json"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """What the records of an attempt say. Times are UTC.

    Args:
        seen_at: last sign of life: a heartbeat, or the claim where there was none.
        ended_at: None while nobody has recorded an ending.
        running: its launcher says so, or cannot be asked: on a cluster, a Job may wait for days before it starts.
        counted: whether its usage is billed, or never will be.
    """

    number: int
    seen_at: datetime
    ended_at: datetime | None
    running: bool = False
    counted: bool = True

    def lives(self, now: datetime, patience: timedelta) -> bool:
        """Whether its worker may live."""
        return self.ended_at is None and (self.running or now - self.seen_at <= patience)


@dataclass(frozen=True, kw_only=True)
class Place:
    """What lies at an address.

    Args:
        entries: all objects below it.
        writer: the folder that the manifest names; "" where there is no manifest.
        attempts: empty for what no worker made, such as an upload.
        wanted: by whom it is waited for, "" where by nobody.
        again: whether it may be asked for again.
    """

    address: str
    entries: Sequence[Entry]
    writer: str = ""
    attempts: Sequence[Trace] = ()
    wanted: str = ""
    again: bool = True


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """Objects that go together, and why; paths in the order in which they may go."""

    address: str
    what: str
    why: str
    paths: tuple[str, ...]
    size: int


@dataclass(frozen=True, kw_only=True)
class PlacePlan:
    """``end`` are attempts that died unseen, whose ending is to be recorded; they are collected some days after it."""

    end: tuple[int, ...] = ()
    drop: tuple[Leftover, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Group:
    what: str
    days: int | None
    why: str
    entries: list[Entry] = field(default_factory=list)


def may_have_leftovers(place: Place, rule: Leftovers, now: datetime) -> bool:
    """Whether the listing alone shows something old enough, so that the attempts' records are worth reading. Pure."""
    patience = rule.patience_days
    if patience is None:
        return False
    old = timedelta(days=patience)
    return any(now - max(each.modified for each in group.entries) > old for group in _groups(place, rule))


def plan_place(place: Place, rule: Leftovers, now: datetime) -> PlacePlan:
    """Pure. Nothing goes while an attempt may live, its usage is not billed, or somebody waits for the address."""
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
            # Of a save its record goes first, so that none is ever half there.
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
    """What an object belongs to; None for what stays. ``path`` is below the address."""
    over = "the artifact is there" if place.writer else "it came to no artifact"
    if path[0] == "attempts" and len(path) > 2:
        if path[2] in SAVED:
            resumable = not place.writer and place.again
            days = rule.saves_days if resumable else rule.attempt_days
            why = "nobody went on from it" if resumable else over
            return _Group(what=f"saves of attempt {path[1]}", days=days, why=why)
        if place.writer or (len(path) == 3 and path[2] in RECORDS):
            return None
        return _Group(what=f"log and steps of attempt {path[1]}", days=rule.attempt_days, why=over)
    if path[0] in _NOT_WRITERS or path[0] == place.writer or len(path) < 2:
        return None
    why = "another writer won" if place.writer else "it has no manifest"
    return _Group(what=f"folder {path[0]}", days=rule.attempt_days, why=why)
