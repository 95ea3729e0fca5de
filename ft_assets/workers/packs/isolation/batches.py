"""Windows of a pack as tensors: the input of one forward pass."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import pad

from ft_assets.workers.offsets import offsets_of
from ft_assets.workers.packs.format import Pack, Window
from ft_assets.workers.packs.isolation.context import ContextGroup, Slice


@dataclass(frozen=True, kw_only=True, slots=True)
class MicroBatch:
    """Some windows joined to one row, without padding.

    Args:
        input_ids: int64 [1, tokens].
        position_ids: int64 [1, tokens], restarting at 0 with each document.
        boundaries: int32 [documents + 1], document offsets, always on the CPU.
        sources: int64 [learned], the positions whose next token is learned, always on the CPU.
        targets: int64 [learned], those next tokens.
        pieces: int32 [documents], each document's index in its example, always on the CPU.
        weights: float32 [documents], how much each document's example counts, always on the CPU; None: all the same.
        part: set if this is only a slice of a row; all else then describes the slice, whose first and last document may
            be parts of the row's.
    """

    input_ids: torch.Tensor
    position_ids: torch.Tensor
    boundaries: torch.Tensor
    sources: torch.Tensor
    targets: torch.Tensor
    pieces: torch.Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int32))
    weights: torch.Tensor | None = None
    part: Slice | None = None

    @property
    def tokens(self) -> int:
        return self.input_ids.shape[1]

    @property
    def learned(self) -> int:
        return self.targets.shape[0]

    @property
    def documents(self) -> int:
        return self.boundaries.shape[0] - 1

    @property
    def learned_each(self) -> torch.Tensor:
        """How many tokens of each document are learned: int64 [documents], on the CPU."""
        return torch.searchsorted(self.sources, self.boundaries.long()).diff()

    def weighed(self, values: torch.Tensor) -> torch.Tensor:
        """``values`` of the learned tokens, [learned], each times its example's weight."""
        if self.weights is None:
            return values
        return values * on_device(self.weights.repeat_interleave(self.learned_each), values.device)

    def to(self, device: torch.device) -> "MicroBatch":
        """The batch on ``device``; copies overlap with work there."""
        if device.type == "cpu":
            return self
        moved = (self.input_ids, self.position_ids, self.targets)
        input_ids, position_ids, targets = (tensor.pin_memory().to(device, non_blocking=True) for tensor in moved)
        return replace(self, input_ids=input_ids, position_ids=position_ids, targets=targets)

    def learned_in(self, group: ContextGroup) -> torch.Tensor:
        """Which of the row's learned tokens this rank of ``group`` learns: bool [learned], on the CPU."""
        size = -(-self.tokens // group.size)
        return self.sources // size == group.place

    def slice_for(self, group: ContextGroup) -> "MicroBatch":
        """The slice of this row that this rank of ``group`` holds.

        So that slices are equally long, the row first gets a document of up to ``group.size`` - 1 tokens of which
        nothing is learned::

            row of 2 ranks   a0 a1 a2 b0 b1 b2 b3    + ·
            rank 0           a0 a1 a2 b0             boundaries 0 3 4
            rank 1           b1 b2 b3 ·              boundaries 0 3 4, positions 1 2 3 0
        """
        missing = -self.tokens % group.size
        size = (self.tokens + missing) // group.size
        start = size * group.place
        mine = self.learned_in(group)
        filler = torch.arange(missing)[None]
        boundaries = self.boundaries
        if missing:
            boundaries = torch.cat([boundaries, boundaries[-1:] + missing])
        inside = (boundaries[:-1] < start + size) & (boundaries[1:] > start)

        def of_documents(values: torch.Tensor) -> torch.Tensor:
            """Those of the slice's documents; the filler's is 0."""
            return pad(values, (0, min(missing, 1)))[inside] if len(values) else values

        return MicroBatch(
            input_ids=group.slice_of(torch.cat([self.input_ids, torch.zeros_like(filler)], dim=1)),
            position_ids=group.slice_of(torch.cat([self.position_ids, filler], dim=1)),
            boundaries=(boundaries.clamp(start, start + size) - start).unique(),
            sources=self.sources[mine] - start,
            targets=self.targets[mine],
            pieces=of_documents(self.pieces),
            weights=None if self.weights is None else of_documents(self.weights),
            part=Slice(group=group, boundaries=boundaries),
        )

    def every(self, first: int, step: int) -> "MicroBatch":
        """The documents ``first``, ``first + step`` and so on, alone."""
        lengths = self.boundaries.long().diff()
        kept = torch.zeros(len(lengths), dtype=torch.bool)
        kept[first::step] = True
        tokens = kept.repeat_interleave(lengths)
        place = tokens.cumsum(0) - 1
        learned = tokens[self.sources]
        # Chosen by numbers and not by a mask, whose length a device would have to be waited for.
        rows, wanted = (on_device(which.nonzero()[:, 0], self.targets.device) for which in (tokens, learned))
        ends = lengths[kept].cumsum(0)
        return MicroBatch(
            input_ids=self.input_ids[:, rows],
            position_ids=self.position_ids[:, rows],
            boundaries=torch.cat([torch.zeros(1, dtype=torch.long), ends]).int(),
            sources=place[self.sources[learned]],
            targets=self.targets[wanted],
            pieces=self.pieces[kept],
            weights=None if self.weights is None else self.weights[kept],
        )


def on_device(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """``values`` of the CPU on ``device``, without waiting for what it is doing."""
    return values.to(device, non_blocking=True)


def micro_batch(pack: Pack, windows: Sequence[int]) -> MicroBatch:
    """The windows with these indices as one row."""
    window = pack.read(windows)
    return as_row(window, pack.weights_of(window.examples))


def as_row(window: Window, weights: NDArray[np.float64] | None = None) -> MicroBatch:
    """Windows read from a pack as one row; ``weights`` float64 [documents] are those of their examples.

    A document's first token is never learned, whatever its flag: in the row it follows another document, which must not
    predict it.
    """
    lengths = window.document_lengths
    offsets = offsets_of(lengths)
    positions = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    places = np.flatnonzero(window.learned & (positions > 0))
    ids = window.input_ids.astype(np.int64)
    return MicroBatch(
        input_ids=_row(ids),
        position_ids=_row(positions),
        boundaries=torch.from_numpy(offsets.astype(np.int32)),
        sources=torch.from_numpy(places - 1),
        targets=torch.from_numpy(ids[places]),
        pieces=torch.from_numpy(np.array(window.pieces)),
        weights=None if weights is None else torch.from_numpy(weights.astype(np.float32)),
    )


def split_windows(windows: NDArray[np.int64], size: int) -> list[list[int]]:
    """``windows`` in their order, in pieces of at most ``size``."""
    return [windows[start : start + size].tolist() for start in range(0, len(windows), size)]


def _row(values: NDArray[np.integer]) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.int64))[None]
