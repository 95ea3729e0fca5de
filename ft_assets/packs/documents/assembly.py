"""Documents put together from pieces of tokens: encoded segments, and constants that many documents share."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ft_assets.packs.encoding.encoder import Encoded


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens:
    """Tokens with their marks: ``ids`` int32, ``learned`` and ``control`` bool, all [tokens]."""

    ids: NDArray[np.int32]
    learned: NDArray[np.bool_]
    control: NDArray[np.bool_]

    def taken(self, chosen: NDArray[np.integer] | NDArray[np.bool_] | slice) -> "Tokens":
        return Tokens(ids=self.ids[chosen], learned=self.learned[chosen], control=self.control[chosen])


@dataclass(frozen=True, kw_only=True, slots=True)
class Documents:
    """Documents one behind the other: ``tokens``, and ``offsets`` int64 [documents + 1]."""

    tokens: Tokens
    offsets: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def document(self, number: int) -> Tokens:
        return self.tokens.taken(slice(int(self.offsets[number]), int(self.offsets[number + 1])))


@dataclass(frozen=True, kw_only=True, slots=True)
class Pieces:
    """Places in a pool of tokens: ``starts`` and ``lengths``, int64 of equal shape."""

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]


class Assembly:
    """Collects pieces of numbered documents and puts them together in one go.

    Args:
        documents: how many there will be.
    """

    def __init__(self, documents: int) -> None:
        self._counts = np.zeros(documents, np.int64)
        self._groups: list[tuple[NDArray[np.int64], Pieces]] = []
        self._pool: list[Tokens] = []
        self._filled = 0

    def constant(self, tokens: Tokens) -> int:
        """Put tokens into the pool; where they begin there."""
        self._pool.append(tokens)
        self._filled += len(tokens.ids)
        return self._filled - len(tokens.ids)

    def encoded(self, encoded: Encoded, control: NDArray[np.bool_] | None = None) -> Pieces:
        """Put encoded texts into the pool; where each of them is there, [texts]."""
        if control is None:
            control = np.zeros(len(encoded.ids), np.bool_)
        start = self.constant(Tokens(ids=encoded.ids, learned=encoded.learned, control=control))
        return Pieces(starts=encoded.offsets[:-1] + start, lengths=np.diff(encoded.offsets))

    def place(self, numbers: Sequence[int], pieces: Pieces) -> None:
        """Make the documents ``numbers`` of ``pieces``, [documents, pieces]."""
        documents = np.array(numbers, np.int64)
        self._counts[documents] = pieces.starts.shape[1]
        self._groups.append((documents, pieces))

    def documents(self) -> Documents:
        edges = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._counts)])
        starts = np.zeros(int(edges[-1]), np.int64)
        lengths = np.zeros(int(edges[-1]), np.int64)
        for documents, pieces in self._groups:
            places = edges[documents][:, None] + np.arange(pieces.starts.shape[1])
            starts[places], lengths[places] = pieces.starts, pieces.lengths
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        # A piece's tokens stand next to each other in the pool and in the result.
        source = np.repeat(starts - ends[:-1], lengths) + np.arange(int(ends[-1]))
        empty = Tokens(ids=np.empty(0, np.int32), learned=np.empty(0, np.bool_), control=np.empty(0, np.bool_))
        parts = [empty, *self._pool]
        pool = Tokens(
            ids=np.concatenate([part.ids for part in parts]),
            learned=np.concatenate([part.learned for part in parts]),
            control=np.concatenate([part.control for part in parts]),
        )
        return Documents(tokens=pool.taken(source), offsets=ends[edges])
