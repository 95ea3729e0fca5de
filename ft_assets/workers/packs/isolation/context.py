"""Context parallelism: a row of tokens in equal slices, one on each rank of a group.

All layers but attention work token by token, so each rank computes them for its slice. Attention works head by head:
before it the ranks exchange tokens for heads, and afterwards back (DeepSpeed-Ulysses, Jacobs et al. 2023,
https://arxiv.org/abs/2309.14509)::

              a slice of tokens, all heads          all tokens, some heads
    rank 0    tokens 0-3    heads 0 1 2 3    <->    tokens 0-7    heads 0 1
    rank 1    tokens 4-7    heads 0 1 2 3    <->    tokens 0-7    heads 2 3

Attention itself is the same as on one rank: the same kernels, documents and windows. Results are equal up to rounding.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from ft_resources.errors import BadRecipe


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextGroup:
    """``size`` ranks that share each row; this process has slice number ``place``. ``handle`` is the process group."""

    size: int
    place: int
    handle: Any

    def slice_of(self, values: torch.Tensor) -> torch.Tensor:
        """This rank's slice of the last axis, whose length is a multiple of ``size``."""
        return values.chunk(self.size, dim=-1)[self.place]

    def total(self, value: torch.Tensor) -> torch.Tensor:
        """The sum of ``value`` over the group, on its device, without gradients."""
        summed = value.clone()
        dist.all_reduce(summed, group=self.handle)
        return summed


@dataclass(frozen=True, kw_only=True, slots=True)
class Slice:
    """What a rank of ``group`` must know of the row that it has a slice of.

    ``boundaries`` are the offsets of the whole row's documents: int32 [documents + 1], always on the CPU.
    """

    group: ContextGroup
    boundaries: torch.Tensor

    def by_heads(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """All tokens of some heads, from this rank's tokens of all heads.

        Each tensor is [1, heads, tokens, size] and becomes [1, heads / ranks, tokens * ranks, size]; their heads and
        sizes may differ. Neighbouring heads stay together, so grouped queries keep their keys.

        Raises BadRecipe if the ranks cannot divide the heads.
        """
        ranks = self.group.size
        fewest = min(tensor.shape[1] for tensor in tensors)
        if any(tensor.shape[1] % ranks for tensor in tensors):
            raise BadRecipe(
                f"{fewest} key/value heads cannot be divided evenly among {ranks} ranks that share a row",
                where="hardware.context_parallel",
                remedy=f"Use a divisor of {fewest}.",
            )
        # One exchange for all tensors: [ranks, tokens, numbers of one rank's heads].
        parts = [tensor[0].unflatten(0, (ranks, -1)).transpose(1, 2).flatten(2) for tensor in tensors]
        sent = torch.cat(parts, dim=2).flatten(0, 1)
        received = self._exchanged(sent).split([part.shape[2] for part in parts], dim=1)
        return [
            each.unflatten(1, (-1, tensor.shape[3])).transpose(0, 1)[None]
            for each, tensor in zip(received, tensors, strict=True)
        ]

    def by_tokens(self, result: torch.Tensor) -> torch.Tensor:
        """The reverse for attention's result: [1, tokens * ranks, heads / ranks, size] to [1, tokens, heads, size]."""
        received = self._exchanged(result[0].flatten(1)).unflatten(0, (self.group.size, -1))
        return received.transpose(0, 1).unflatten(2, result.shape[2:]).flatten(1, 2)[None]

    def _exchanged(self, sent: torch.Tensor) -> torch.Tensor:
        """Each rank's part of ``sent`` [ranks * tokens, numbers] to it, and theirs for this one in their order."""
        received: torch.Tensor = _Exchange.apply(sent.contiguous(), self.group.handle)
        return received


class _Exchange(torch.autograd.Function):
    """Equal pieces to and from each rank of a group. Gradients travel the same way back.

    All ranks compute the same layers in the same order, so their exchanges meet, in backward passes too.
    """

    @staticmethod
    def forward(ctx: Any, sent: torch.Tensor, handle: Any) -> torch.Tensor:
        ctx.handle = handle
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent, group=handle)
        return received

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (gradient,) = gradients
        received = torch.empty_like(gradient, memory_format=torch.contiguous_format)
        dist.all_to_all_single(received, gradient.contiguous(), group=ctx.handle)
        return received, None
