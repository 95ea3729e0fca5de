"""Counts how often the host waits for the device."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ft_assets.workers.packs.isolation.batches import MicroBatch

_T = torch.Tensor
_READS = {_T.item, _T.tolist, _T.cpu, _T.numpy, _T.nonzero, _T.__float__, _T.__int__, _T.__bool__, _T.__index__}


def on_meta(batch: MicroBatch) -> MicroBatch:
    """``batch`` as on a device whose numbers nobody can read: an operation that has to wait for one raises."""

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(tensor, device="meta")

    return MicroBatch(
        input_ids=moved(batch.input_ids),
        position_ids=moved(batch.position_ids),
        boundaries=batch.boundaries,
        sources=batch.sources,
        targets=moved(batch.targets),
        pieces=batch.pieces,
    )


class Reads(TorchFunctionMode):
    """Counts in ``count`` how often Python reads floating-point numbers: on a GPU each is a wait. Offsets and lengths
    are integers of the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _READS and args[0].is_floating_point():
            self.count += 1
        return func(*args, **(kwargs or {}))
