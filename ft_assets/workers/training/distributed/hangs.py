"""Hangs: ranks that wait in a collective for one that has stopped.

Each rank has a thread that reads PyTorch's flight recorder, on GPUs and CPUs alike. The first thread that sees its rank
wait for too long calls the others through the key-value store of the process group. Each rank writes what it knows to
the attempt, ``hang/rank-NNNN.json`` (its place, recorded collectives, stacks), and ends with ``Hung``, which names the
rank that the others wait for.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import faulthandler
import json
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ft_assets.workers.training.ranks import PATIENCE_S
from ft_resources.errors import Hung

_IN_STEPS_S, _STEPS = 600.0, 10
"""Patience between two steps: at least so many seconds and so many times the longest step, at most ``PATIENCE_S``."""
_LOOK_S = 1.0
_ANSWER_S = 10.0
"""Time that the others have to report their places, and again to write their records."""
_CALLED = "ft-hang/called"
_DUMPS = ("_dump_nccl_trace_json", "_dump_fr_trace_json")


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A rank's place: it entered ``entered`` collectives, and has waited ``waited_s`` in ``waits_in`` ("": none)."""

    rank: int
    node: str
    step: int
    entered: int
    waits_in: str
    waited_s: float


class HangWatch:
    """The thread of one rank. ``nodes`` names each rank's node, ``keep`` stores a file with the attempt, ``end`` ends
    the process with the error."""

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        nodes: Sequence[str],
        *,
        keep: Callable[[str, bytes], None],
        end: Callable[[Hung], None],
    ) -> None:
        # A separate connection, as the original may be blocked.
        self._store, self._rank, self._nodes = store.clone(), rank, nodes  # type: ignore[attr-defined]
        self._keep, self._end = keep, end
        self._step, self._longest_s = 0, 0.0
        self._stepped_at: float | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="hangs", daemon=True).start()

    def step(self, number: int) -> None:
        """An optimizer step is done."""
        now = time.monotonic()
        if self._stepped_at is not None:
            self._longest_s = max(self._longest_s, now - self._stepped_at)
        self._step, self._stepped_at = number, now

    def pause(self) -> None:
        """What follows is not a step, so its time does not count as one."""
        self._stepped_at = None

    def close(self) -> None:
        """The rank's work is done, so it cannot hang any more."""
        self._closed.set()

    @property
    def limit_s(self) -> float:
        """How long this rank waits in one collective before it calls the others."""
        if self._stepped_at is None or not self._longest_s:
            return PATIENCE_S
        return min(PATIENCE_S, max(_IN_STEPS_S, _STEPS * self._longest_s))

    def _watch(self) -> None:
        counts, since = (0, 0), time.monotonic()
        while not self._closed.wait(_LOOK_S):
            now, called = counted(recorder(entries=False)), False
            if now != counts or now[0] == now[1]:
                counts, since = now, time.monotonic()
            # If the store does not answer, its process is gone, and the run with it.
            with suppress(dist.DistError):
                called = self._store.check([_CALLED])
            waits = time.monotonic() - since
            if called or waits > self.limit_s:
                return self._tell(waits)

    def _tell(self, waits: float) -> None:
        recorded = recorder(entries=True)
        waiting = [str(each["profiling_name"]) for each in recorded["entries"] if not each["retired"]]
        own = Place(
            rank=self._rank,
            node=self._nodes[self._rank],
            step=self._step,
            entered=counted(recorded)[0],
            waits_in=waiting[0] if waiting else "",
            waited_s=round(waits, 1),
        )
        places = {self._rank: own}
        with suppress(dist.DistError):
            self._store.set(_CALLED, b"")
            places = self._exchange("place", json.dumps(asdict(own)))
        problem = verdict(places, self._nodes)
        record = {"verdict": str(problem), **asdict(own), "stacks": _stacks(), "recorder": recorded}
        self._keep(f"hang/rank-{self._rank:04d}.json", json.dumps(record, indent=1).encode())
        with suppress(dist.DistError):
            # The first rank that ends makes torchrun end the others of its node.
            self._exchange("kept", json.dumps(asdict(own)))
        self._end(problem)

    def _exchange(self, what: str, own: str) -> dict[int, Place]:
        """Publish ``own``, and return the places of the ranks that answer in time."""
        self._store.set(f"ft-hang/{what}/{self._rank}", own)
        keys = {rank: f"ft-hang/{what}/{rank}" for rank in range(len(self._nodes))}
        with suppress(dist.DistError):
            self._store.wait([*keys.values()], timedelta(seconds=_ANSWER_S))
        there = {rank: key for rank, key in keys.items() if self._store.check([key])}
        return {rank: Place(**json.loads(self._store.get(key))) for rank, key in there.items()}


def verdict(places: Mapping[int, Place], nodes: Sequence[str]) -> Hung:
    """The error that names the rank which the others waited for; ``places`` lacks ranks that did not answer."""
    silent = [rank for rank in range(len(nodes)) if rank not in places]
    furthest = max(places.values(), key=lambda place: (place.entered, place.waited_s))
    behind = [place.rank for place in places.values() if place.entered < furthest.entered]
    blamed = silent or behind
    last = furthest.waits_in or "no collective"
    waits = f"for {furthest.waited_s:.0f} s in {last}, their number {furthest.entered}, after step {furthest.step}"
    if not blamed:
        return Hung(
            f"the ranks wait for each other {waits}",
            where="hang",
            remedy="No rank is behind: look at the network between the nodes. The records are in the attempt's hang/.",
        )
    named = ", ".join(f"rank {rank} on {nodes[rank]}" for rank in blamed[:8])
    did = "no longer responds" if silent else f"has entered only {min(p.entered for p in places.values())}"
    return Hung(
        f"{named} {did}; the others wait {waits}",
        where="hang",
        remedy="The work is tried again from its last save. If it stops on the same node again, look at that node; "
        "stacks and collectives are in the attempt's hang/.",
    )


def recorder(*, entries: bool) -> dict[str, Any]:
    """What the flight recorder has on the collectives of NCCL and of others: each group's counts, and ``entries``."""
    found: dict[str, Any] = {"entries": [], "pg_status": []}
    for name in _DUMPS:
        # Private names. A PyTorch without NCCL lacks the first.
        if dump := getattr(torch._C._distributed_c10d, name, None):
            read = json.loads(dump(entries, False))
            found["entries"] += read.get("entries", [])
            found["pg_status"] += [*read.get("pg_status", {}).values()]
    return found


def counted(recorded: Mapping[str, Any]) -> tuple[int, int]:
    """How many collectives of all groups were entered, and how many of them have ended."""
    entered, over = (
        sum(max(0, int(status[f"last_{what}_collective"])) for status in recorded["pg_status"])
        for what in ("enqueued", "completed")
    )
    return entered, over


def _stacks() -> list[str]:
    """The stack of every thread of this process."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file=file, all_threads=True)
        file.seek(0)
        return file.read().splitlines()
