"""A split as the trainer's collator emits it, some windows at a time, so that memory does not grow with the pack."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.offsets import offsets_of
from ft_assets.workers.packs.format import Pack
from ft_assets.workers.packs.isolation.batches import as_row

_TOKENS = 1 << 21


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """Some windows joined to one row by ``as_row``.

    Args:
        pack: its source.
        ids: int64 [tokens].
        positions: int64 [tokens], each token's position in its document.
        targets: int64 [tokens], the collator's target *for* each token, i.e. the token itself if it is learned, else
            -1.
        boundaries: int64 [documents + 1].
        examples: int64 [documents], the example of each document.
        pieces: int32 [documents], the document's index in its example.
        longest_window: tokens of the longest window.
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

    def count(self, tokens: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Number of flagged tokens in each document, int64 [documents]."""
        total = offsets_of(tokens)
        return total[self.boundaries[1:]] - total[self.boundaries[:-1]]

    def name(self, document: int) -> str:
        """A document for humans: split, row of the upload, id."""
        example = int(self.examples[document])
        return f"{self.pack.split} row {self.pack.example_row(example)} (id {self.pack.example_id(example)[:12]})"

    def document(self, document: int) -> slice:
        """A document's range of tokens."""
        return slice(int(self.boundaries[document]), int(self.boundaries[document + 1]))


def chunks(pack: Pack) -> Iterator[Chunk]:
    """The whole split, in window order."""
    lengths = pack.window_lengths
    start = 0
    while start < len(pack):
        # At least one window, then as many as fit into the limit.
        ends = np.cumsum(lengths[start : start + 65536])
        end = start + max(1, int(np.searchsorted(ends, _TOKENS, side="right")))
        yield chunk(pack, range(start, end))
        start = end


def chunk(pack: Pack, windows: range) -> Chunk:
    """These windows."""
    row = pack.read(windows)
    batch = as_row(row)
    ids = batch.input_ids[0].numpy()
    targets = np.full(len(ids), -1, np.int64)
    # The collator gives the position that predicts, and its target: the next token.
    targets[batch.sources.numpy() + 1] = batch.targets.numpy()
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
