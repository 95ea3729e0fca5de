"""PyTorch's own attention over documents of different lengths, by whichever FlashAttention is active."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention.varlen import varlen_attn

from ft_assets.workers.libraries import accepts
from ft_assets.workers.packs.isolation.constants import asked_once


def attend_documents(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    offsets: torch.Tensor,
    longest: int,
    scale: float | None = None,
    before: int = -1,
) -> Any:
    """Causal attention inside each document, [tokens, heads, size]; arguments as ``varlen.attend`` has them.

    Args:
        before: tokens before itself that a token sees; -1: all.
    """
    groups: dict[str, Any] = {}
    if (shared := q.shape[1] // k.shape[1]) > 1:
        if _knows_groups(varlen_attn):
            groups = {"enable_gqa": True}
        else:
            k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
    return varlen_attn(q, k, v, offsets, offsets, longest, longest, scale=scale, window_size=(before, 0), **groups)


@asked_once
def _knows_groups(function: Callable[..., Any]) -> bool:
    return accepts(function, "enable_gqa")
