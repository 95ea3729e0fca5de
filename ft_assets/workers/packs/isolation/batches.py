"""Windows of a pack as tensors: what one forward pass reads."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ft_assets.packs.format import Pack, Window


@dataclass(frozen=True, kw_only=True, slots=True)
class MicroBatch:
    """Some windows joined to one row, so nothing is padded.

    Args:
        input_ids: int64 [1, tokens].
        position_ids: int64 [1, tokens], starting again at 0 with each document.
        boundaries: int32 [documents + 1], document offsets, always on the CPU.
        sources: int64 [learned], the positions whose next token is learned.
        targets: int64 [learned], those next tokens.
    """

    input_ids: torch.Tensor
    position_ids: torch.Tensor
    boundaries: torch.Tensor
    sources: torch.Tensor
    targets: torch.Tensor

    @property
    def tokens(self) -> int:
        return self.input_ids.shape[1]

    @property
    def learned(self) -> int:
        return self.targets.shape[0]

    @property
    def documents(self) -> int:
        return self.boundaries.shape[0] - 1

    def to(self, device: torch.device) -> "MicroBatch":
        """The same on ``device``; copies overlap with work there."""
        if device.type == "cpu":
            return self
        moved = (self.input_ids, self.position_ids, self.sources, self.targets)
        input_ids, position_ids, sources, targets = (
            tensor.pin_memory().to(device, non_blocking=True) for tensor in moved
        )
        return MicroBatch(
            input_ids=input_ids,
            position_ids=position_ids,
            boundaries=self.boundaries,
            sources=sources,
            targets=targets,
        )


def micro_batch(pack: Pack, windows: Sequence[int]) -> MicroBatch:
    """The windows with these indices as one row."""
    return as_row(pack.read(windows))


def as_row(window: Window) -> MicroBatch:
    """What was read of a pack as one row.

    A document's first token is never learned, whatever its flag says: what precedes it in the row is another
    document, which must not predict it.
    """
    lengths = window.document_lengths
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    positions = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    places = np.flatnonzero(window.learned & (positions > 0))
    ids = window.input_ids.astype(np.int64)
    return MicroBatch(
        input_ids=_row(ids),
        position_ids=_row(positions),
        boundaries=torch.from_numpy(offsets.astype(np.int32)),
        sources=torch.from_numpy(places - 1),
        targets=torch.from_numpy(ids[places]),
    )


def split_windows(windows: NDArray[np.int64], size: int) -> list[list[int]]:
    """``windows`` in their order, in pieces of at most ``size``."""
    return [windows[start : start + size].tolist() for start in range(0, len(windows), size)]


def _row(values: NDArray[np.integer]) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.int64))[None]
