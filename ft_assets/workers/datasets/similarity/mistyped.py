"""Copies with so many typing mistakes (in one letter of ten) that neither words nor 5-grams reveal them.

Such a copy still shares two fifths of its pieces of eight letters with its original, more than with any other text, and
their edit distance is a tenth of their length. Pieces find the one text that may be the original, and the distance
decides. Letters are those of ``bare_texts``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from ft_assets.workers.datasets.similarity.folded import bare_texts
from ft_assets.workers.datasets.similarity.hashing import text_buffers
from ft_assets.workers.datasets.similarity.mapped import NewArrays, open_arrays
from ft_assets.workers.datasets.similarity.mistyped_kernel import DISTANCE, decode, find_distances, find_pieces, vote

# A piece that more than this many indexed texts have is a turn of phrase.
_MOST_TEXTS = 4
# A larger index takes only every second piece of all texts, or every fourth and so on.
_MOST_PIECES = 1 << 23
# Another subject in the same wording changes most of a text's own pieces; mistakes change a tenth of all letters.
_OF_OWN = 0.35
_TABLES = ("hashes", "rows", "sizes", "totals", "owns")


@dataclass(frozen=True, slots=True)
class Letters:
    """Texts as code points (uint32): text i is ``codes[starts[i]:starts[i + 1]]``."""

    starts: np.ndarray
    codes: np.ndarray

    @classmethod
    def of(cls, texts: pa.Array) -> Self:
        offsets, data = text_buffers(bare_texts(texts))
        starts, codes = np.empty(len(offsets), np.int64), np.empty(int(offsets[-1] - offsets[0]), np.uint32)
        return cls(starts, codes[: decode(offsets, data, starts, codes)])


@dataclass(frozen=True, slots=True)
class Pieces:
    """Hashes of some texts' pieces (uint64); each text's pieces begin at ``ends`` (int64 ``[n + 1]``), its letters at
    ``starts``."""

    hashes: np.ndarray
    ends: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, texts: pa.Array, every: int = 1) -> Self:
        """One piece in ``every`` (a power of two), and fewer of long texts."""
        letters = Letters.of(texts)
        ends, found = np.zeros(len(letters.starts), np.int64), np.empty(len(letters.codes) + 1, np.uint64)
        count = find_pieces(letters.starts, letters.codes, every, ends, found)
        return cls(found[:count].copy(), ends, letters.starts)


def distances(texts: pa.Array, others: pa.Array, limits: np.ndarray) -> np.ndarray:
    """Edit distances of ``texts`` and ``others``, as shares of the longer text; 1 for a pair above its limit."""
    here, there = Letters.of(texts), Letters.of(others)
    found: np.ndarray = find_distances(here.starts, here.codes, there.starts, there.codes, limits)
    return found


class PieceIndex:
    """An open index of texts by their pieces, numbered in the order that they were given in."""

    def __init__(self, path: Path) -> None:
        arrays, notes = open_arrays(path, own=True)
        self._every, self._shift = notes["every"], np.uint64(notes["shift"])
        self._tables = [arrays[name] for name in _TABLES]
        self._buckets = arrays["buckets"]

    @classmethod
    def build(cls, parts: Iterable[Pieces], common: np.ndarray, path: Path) -> Self:
        """Write an index of texts, some at a time, to ``path`` and open it; without the pieces ``common``."""
        every, kept, lengths = 1, [(np.zeros(0, np.uint64), np.zeros(0, np.int32))], [np.zeros(0, np.int64)]
        for part in parts:
            before = sum(map(len, lengths))
            lengths.append(np.diff(part.starts))
            rows = np.repeat(np.arange(before, before + len(lengths[-1]), dtype=np.int32), np.diff(part.ends))
            kept.append(_one_in(every, part.hashes, rows))
            while sum(len(hashes) for hashes, _ in kept) > _MOST_PIECES:
                every *= 2
                kept = [_one_in(every, *each) for each in kept]
        hashes, rows = (np.concatenate(each) for each in zip(*kept, strict=True))
        sizes = np.concatenate(lengths)
        totals, order = np.bincount(rows, minlength=len(sizes)), np.argsort(hashes, kind="stable")
        hashes, rows = hashes[order], rows[order]
        new = np.append(True, (np.diff(hashes) > 0) | (np.diff(rows) > 0))[: len(hashes)]
        hashes, rows = hashes[new], rows[new]
        first = np.flatnonzero(np.append(True, np.diff(hashes) > 0)[: len(hashes)])
        repeated = np.diff(np.append(first, len(hashes)))
        telling = np.repeat((repeated <= _MOST_TEXTS) & ~np.isin(hashes[first], common), repeated)
        hashes, rows = hashes[telling], rows[telling]
        bits = max(len(hashes), 2).bit_length()
        counts = np.bincount((hashes >> np.uint64(64 - bits)).astype(np.int64), minlength=1 << bits)
        owns, buckets = np.bincount(rows, minlength=len(sizes)), np.append(0, np.cumsum(counts))
        values = (hashes, rows, sizes, totals, owns, buckets)
        made = dict(zip((*_TABLES, "buckets"), values, strict=True))
        file = NewArrays(
            path, {name: (np.uint64 if name == "hashes" else np.int32, len(each)) for name, each in made.items()}
        )
        for name, values in made.items():
            file.arrays[name][:] = values
        file.seal({"every": every, "shift": 64 - bits}, checked=False)
        return cls(path)

    def likeliest(self, texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """For each text the indexed one that it may be a mistyped copy of (int64), -1 for none; and the most that their
        distance may be."""
        pieces, found = Pieces.of(texts, self._every), np.empty(len(texts), np.int64)
        given = (pieces.starts, pieces.ends, pieces.hashes, self._buckets, self._shift, *self._tables, found)
        vote(*given)
        *_, totals, owns = self._tables
        # The last one is for -1.
        shares = np.append(owns / np.maximum(totals, 1), 0.0)
        return found, np.minimum(DISTANCE, _OF_OWN * shares[found])


def common_pieces(texts: pa.Array, more_than: int) -> np.ndarray:
    """The pieces (ascending) that occur in ``texts`` more than ``more_than`` times: fixed wording."""
    pieces = np.sort(Pieces.of(texts).hashes)
    # The same piece occurs again that many places later.
    first = pieces[: max(len(pieces) - more_than, 0)]
    return np.unique(first[pieces[more_than:] == first])


def _one_in(every: int, hashes: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    which = hashes & np.uint64(every - 1) == 0
    return hashes[which], rows[which]
