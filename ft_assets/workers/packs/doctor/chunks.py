"""A split as the trainer's collator emits it, some windows at a time, so that memory does not grow with the pack."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ft_assets.packs.format import Pack
from ft_assets.packs.isolation.batches import micro_batch

_TOKENS = 1 << 21


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """Some windows joined to one row, as ``micro_batch`` made it.

    Args:
        pack: where it is from.
        ids: int64 [tokens].
        positions: int64 [tokens], of each token in its document.
        targets: int64 [tokens], what the collator has the model predict *at* each token, i.e. the token itself where
            it is learned, else -1.
        boundaries: int64 [documents + 1].
        examples: int64 [documents], the example of each document.
        pieces: int32 [documents], which of its example's documents.
        longest_window: tokens of the longest of the windows.
    """

    pack: Pack
    ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    targets: NDArray[np.int64]
    boundaries: NDArray[np.int64]
    examples: NDArray[np.int64]
    pieces: NDArray[np.int32]
    longest_window: int

    @property
    def learned(self) -> NDArray[np.bool_]:
        """Which tokens are learned, bool [tokens]."""
        return self.targets >= 0

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.boundaries)

    def document_of(self, token: int) -> int:
        return int(np.searchsorted(self.boundaries[1:], token, side="right"))

    def count(self, tokens: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many of the flagged tokens each document has, int64 [documents]."""
        total = np.concatenate([np.zeros(1, np.int64), np.cumsum(tokens, dtype=np.int64)])
        return total[self.boundaries[1:]] - total[self.boundaries[:-1]]

    def name(self, document: int) -> str:
        """A document for humans: split, row of the upload, id."""
        example = int(self.examples[document])
        return f"{self.pack.split} row {self.pack.example_row(example)} (id {self.pack.example_id(example)[:12]})"

    def document(self, document: int) -> slice:
        """Where a document's tokens are."""
        return slice(int(self.boundaries[document]), int(self.boundaries[document + 1]))


def chunks(pack: Pack) -> Iterator[Chunk]:
    """The whole split, in the order of its windows."""
    lengths = pack.window_lengths
    start = 0
    while start < len(pack):
        # At least one window, then as many as the limit has room for.
        ends = np.cumsum(lengths[start : start + 65536])
        end = start + max(1, int(np.searchsorted(ends, _TOKENS, side="right")))
        yield chunk(pack, range(start, end))
        start = end


def chunk(pack: Pack, windows: range) -> Chunk:
    """These windows."""
    batch = micro_batch(pack, windows)
    ids = batch.input_ids[0].numpy()
    targets = np.full(len(ids), -1, np.int64)
    # The collator gives the position that predicts, and what it should predict: the token behind it.
    targets[batch.sources.numpy() + 1] = batch.targets.numpy()
    row = pack.read(windows)
    return Chunk(
        pack=pack,
        ids=ids,
        positions=batch.position_ids[0].numpy(),
        targets=targets,
        boundaries=batch.boundaries.numpy().astype(np.int64),
        examples=row.examples,
        pieces=row.pieces,
        longest_window=int(pack.window_lengths[windows.start : windows.stop].max()),
    )
