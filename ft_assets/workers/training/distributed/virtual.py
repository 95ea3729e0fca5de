"""Virtual ranks: a training that gives the same bytes on 2, 4 or 8 processes.

Each step is divided among a fixed number of virtual ranks, however many processes there are. A process computes its
virtual ranks one after the other, each from zero gradients and with its own random draws, and their gradients are added
up in a fixed order. So a training may continue on half or twice the processes, bit for bit, on devices whose kernels
are deterministic (Li et al., "EasyScale", https://arxiv.org/abs/2208.14228).

For 4 virtual ranks a, b, c, d the sum is (a + b) + (c + d) on 1, 2 and 4 processes alike.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist

from ft_assets.workers.training.distributed.sharding import Sharding, computing
from ft_assets.workers.training.ranks import Ranks

_AT_ONCE = 1 << 24
"""Elements that are exchanged at once."""


class VirtualRanks(Sharding):
    """Every rank holds the whole model; nothing is exchanged before the end of a step."""

    averages = False

    def __init__(self) -> None:
        # Sums of 2^level neighbouring virtual ranks, at most one of each level.
        self._sums: list[tuple[int, list[torch.Tensor]]] = []

    def wrap(self, accelerator: Any, model: Any, optimizer: Any, max_grad_norm: float) -> tuple[Any, Any]:
        """Prepared as for one process: backward passes exchange nothing."""
        return computing(accelerator, model), optimizer

    def micro_batch(self, model: Any, *, last: bool) -> AbstractContextManager[None]:
        return nullcontext()

    @torch.no_grad()
    def end_part(self, model: Any) -> None:
        """Set the virtual rank's gradients aside; add those of two neighbours as soon as both are there."""
        level, own = 0, [_taken(parameter) for parameter in _trained(model)]
        while self._sums and self._sums[-1][0] == level:
            _, before = self._sums.pop()
            level, own = level + 1, [one.add_(other) for one, other in zip(before, own, strict=True)]
        self._sums.append((level, own))

    @torch.no_grad()
    def complete_gradients(self, model: Any, ranks: Ranks) -> None:
        """Sum the gradients over all virtual ranks, on every process."""
        ((_, own),) = self._sums
        self._sums = []
        for some in _chunks(own):
            flat = torch.cat([each.reshape(-1) for each in some])
            parts = [flat] if ranks.alone else [torch.empty_like(flat) for _ in range(ranks.world)]
            if not ranks.alone:
                dist.all_gather(parts, flat)
            pieces = summed(parts).split([each.numel() for each in some])
            for each, piece in zip(some, pieces, strict=True):
                each.copy_(piece.view_as(each))
        for parameter, gradient in zip(_trained(model), own, strict=True):
            parameter.grad = gradient


def summed(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The sum of ``parts``: of neighbours while their number is even, then from the first to the last."""
    while len(parts) > 1 and len(parts) % 2 == 0:
        parts = [one + other for one, other in zip(parts[::2], parts[1::2], strict=True)]
    first, *rest = parts
    for each in rest:
        first = first + each
    return first


def _trained(model: Any) -> list[torch.nn.Parameter]:
    return [each for each in model.parameters() if each.requires_grad]


def _taken(parameter: torch.nn.Parameter) -> torch.Tensor:
    """The gradient of ``parameter``, taken away from it."""
    gradient, parameter.grad = parameter.grad, None
    return torch.zeros_like(parameter) if gradient is None else gradient


def _chunks(tensors: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """``tensors`` in lists of at most ``_AT_ONCE`` elements, or of one larger tensor."""
    some: list[torch.Tensor] = []
    for each in tensors:
        if some and sum(other.numel() for other in some) + each.numel() > _AT_ONCE:
            yield some
            some = []
        some.append(each)
    if some:
        yield some
