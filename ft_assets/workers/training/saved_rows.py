"""Ledger and step rows in saves: append-only lists, stored in chunks so that no save rewrites all of them.

If every save wrote all lines so far, n saves would write n²/2 times the lines of one. Instead a save writes the new
lines, merged with preceding chunks as long as those are not longer than what is written anyway
(https://en.wikipedia.org/wiki/Bentley-Saxe_method)::

    lines so far     7          14               21               28
    chunks           [0, 7)     [0, 14)          [0, 14) [14, 21) [0, 28)

So n lines cost n·log(n), and a save has log(n) chunks. Saves alternate between ``LANES`` such chains: saves that are
kept share no file, so damage to one leaves the other whole. Each attempt begins new chains.
"""

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ft_assets.workers.training.journal import Journal

LEDGER, STEPS = "ledger.jsonl", "steps.jsonl"
LANES = 2
"""The number of saves that are kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """The items ``start`` to ``end - 1`` of a list, in the file ``name``."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """One save's view of the lists: all chunks, and the new ones with their items."""

    chunks: tuple[Chunk, ...]
    new: tuple[tuple[Chunk, Sequence[Any]], ...]

    def write(self, folder: Path) -> list[Path]:
        """Write the new chunks into ``folder``, line by line: one long call would block other threads."""
        folder.mkdir(parents=True, exist_ok=True)
        written = []
        for chunk, items in self.new:
            written.append(folder / chunk.name)
            with written[-1].open("w") as file:
                for item in items:
                    file.write(f"{item if isinstance(item, str) else json.dumps(item)}\n")
        return written


@dataclass
class Books:
    """The chunks that this process has stored. File names include the process: an attempt may be started twice."""

    _chains: list[dict[str, list[Chunk]]] = field(
        default_factory=lambda: [{LEDGER: [], STEPS: []} for _ in range(LANES)]
    )
    _turn: int = 0
    _writer: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    def turn(self, journal: Journal) -> Page:
        """The next save's page. Items are taken by reference and must not change any more."""
        chains = self._chains[self._turn]
        new = []
        for kind, items in ((LEDGER, journal.ledger), (STEPS, journal.rows)):
            chunk = _appended(chains[kind], len(items), f"{self._writer}.{self._turn}-{kind.partition('.')[0]}")
            new.append((chunk, items[chunk.start : chunk.end]))
        self._turn = (self._turn + 1) % LANES
        return Page(chunks=tuple(chunk for chain in chains.values() for chunk in chain), new=tuple(new))


def _appended(chain: list[Chunk], end: int, prefix: str) -> Chunk:
    """Extend ``chain`` to ``end`` items; the one chunk that is new."""
    start = chain[-1].end if chain else 0
    while chain and chain[-1].end - chain[-1].start <= end - start:
        start = chain.pop().start
    chain.append(Chunk(name=f"{prefix}-{start:09d}-{end:09d}.jsonl", start=start, end=end))
    return chain[-1]


def kind_of(name: str) -> str:
    """LEDGER or STEPS, from the name of a chunk. Names of one kind sort as their items do."""
    return f"{name.split('-')[1]}.jsonl"


def complete(names: Iterable[str]) -> bool:
    """Whether chunks of these names are both lists from their beginnings, without a gap."""
    ends = {LEDGER: 0, STEPS: 0}
    seen = set()
    for name in sorted(names):
        kind, (start, end) = kind_of(name), map(int, name.removesuffix(".jsonl").split("-")[2:])
        if ends.get(kind) != start:
            return False
        ends[kind] = end
        seen.add(kind)
    return seen == set(ends)
