"""Documents assembled from pieces of tokens: encoded segments, and constants that many documents share."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.offsets import offsets_of
from ft_assets.workers.tokenizers.encoder import Encoded
from ft_assets.workers.tokenizers.segments import Documents, Tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class Pieces:
    """Ranges in a pool of tokens: ``starts`` and ``lengths``, int64 of equal shape."""

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]


class Assembly:
    """Collects pieces of numbered documents and assembles them all at once.

    Args:
        documents: their number.
    """

    def __init__(self, documents: int) -> None:
        self._counts = np.zeros(documents, np.int64)
        self._groups: list[tuple[NDArray[np.int64], Pieces]] = []
        self._pool: list[Tokens] = []
        self._filled = 0

    def constant(self, tokens: Tokens) -> int:
        """Add tokens to the pool; returns their start."""
        self._pool.append(tokens)
        self._filled += len(tokens.ids)
        return self._filled - len(tokens.ids)

    def encoded(self, encoded: Encoded | Documents, control: NDArray[np.bool_] | None = None) -> Pieces:
        """Add encoded texts to the pool; returns their ranges, [texts]."""
        if control is None:
            control = np.zeros(len(encoded.ids), np.bool_)
        start = self.constant(Tokens(ids=encoded.ids, learned=encoded.learned, control=control))
        return Pieces(starts=encoded.offsets[:-1] + start, lengths=np.diff(encoded.offsets))

    def place(self, numbers: Sequence[int], pieces: Pieces) -> None:
        """Compose the documents ``numbers`` of ``pieces``, [documents, pieces]."""
        documents = np.array(numbers, np.int64)
        self._counts[documents] = pieces.starts.shape[1]
        self._groups.append((documents, pieces))

    def documents(self) -> Documents:
        edges = offsets_of(self._counts)
        starts = np.zeros(int(edges[-1]), np.int64)
        lengths = np.zeros(int(edges[-1]), np.int64)
        for documents, pieces in self._groups:
            places = edges[documents][:, None] + np.arange(pieces.starts.shape[1])
            starts[places], lengths[places] = pieces.starts, pieces.lengths
        ends = offsets_of(lengths)
        # A piece's tokens are contiguous in the pool and in the result.
        source = np.repeat(starts - ends[:-1], lengths) + np.arange(int(ends[-1]))
        return Documents.of(self._pool, ends[edges], source)
