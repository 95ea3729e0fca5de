"""FlexAttention computed densely: PyTorch's own has no gradients on a CPU."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn.attention.flex_attention import create_block_mask


def flex_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score_mod: Callable[..., torch.Tensor] | None = None,
    block_mask: Any = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: Any = None,
) -> tuple[torch.Tensor, Any]:
    assert score_mod is not None
    assert return_aux is not None
    shared = query.shape[1] // key.shape[1]
    assert enable_gqa == (shared > 1)
    assert query.shape[1] & (query.shape[1] - 1) == 0 or not enable_gqa
    key, value = (each.repeat_interleave(shared, 1).float() for each in (key, value))
    row, head, asks, answers = (
        torch.arange(size).reshape([-1 if axis == place else 1 for axis in range(4)])
        for place, size in enumerate((*query.shape[:2], query.shape[2], key.shape[2]))
    )
    scores = query.float() @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    scores = score_mod(scores, row, head, asks, answers)
    scores = scores.masked_fill(~block_mask.mask_mod(row, head, asks, answers), -torch.inf)
    return (scores.softmax(-1) @ value).to(query.dtype), SimpleNamespace(lse=scores.logsumexp(-1))


def uncompiled() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """In place of ``fused_scores.compiled``."""
    return flex_attention, create_block_mask
