"""Fused attention over documents of different lengths on a GPU: which function, and when it applies.

PyTorch's ``varlen_attn`` with FlashAttention 4 or 3 where one is installed; else flash-attn's own (the ``gpu`` extra),
which alone has dropout; else ``varlen_attn`` as it comes.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from ft_assets.workers.packs.isolation.constants import asked_once
from ft_assets.workers.packs.isolation.newest_flash import activate
from ft_assets.workers.packs.isolation.torch_varlen import attend_documents

_MAX_HEAD_SIZE = 256
_HEAD_SIZE_STEP = 8
_CAPABILITY = (8, 0)


@asked_once
def flash_attn() -> Callable[..., Any] | None:
    """flash-attn's function for documents of different lengths, or None where it is not installed."""
    try:
        from flash_attn import flash_attn_varlen_func
    except ImportError:
        return None
    function: Callable[..., Any] = flash_attn_varlen_func
    return function


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    offsets: torch.Tensor,
    longest: int,
    dropout: float,
    scale: float | None,
    window: int | None,
) -> Any:
    """Causal attention inside each document, [tokens, heads, size].

    Args:
        q: [tokens, heads, size]; ``k`` and ``v`` may have fewer heads.
        offsets: int32 [documents + 1] on their device; ``longest``: the most tokens of a document.
        window: tokens that a token sees, including itself; None: all before it.
    """
    # Both functions' own window counts the tokens before the token itself.
    before = -1 if window is None else window - 1
    newest = not dropout and activate(q.device)
    if not newest and (flash := flash_attn()):
        # All tokens before and none after is (-1, -1) with ``causal``; a window says its end itself.
        ends = (before, -1 if window is None else 0)
        places = (q, k, v, offsets, offsets, longest, longest)
        return flash(*places, dropout_p=dropout, softmax_scale=scale, causal=True, window_size=ends)
    return attend_documents(q, k, v, offsets, longest, scale, before)


def refusal(
    *, dtype: torch.dtype, head_sizes: tuple[int, int], dropout: float, capability: tuple[int, int]
) -> str | None:
    """Why the fused function does not apply, or None. ``head_sizes`` are those of queries and of values."""
    size, value_size = head_sizes
    if dtype not in (torch.float16, torch.bfloat16):
        return f"it computes in half precision, not in {dtype}"
    if size != value_size:
        return f"queries have {size} numbers a head, values {value_size}"
    if size > _MAX_HEAD_SIZE or size % _HEAD_SIZE_STEP:
        return f"a head of {size} numbers is not a multiple of {_HEAD_SIZE_STEP} up to {_MAX_HEAD_SIZE}"
    if dropout and flash_attn() is None:
        return "torch's varlen_attn has no dropout, and flash-attn is not installed"
    if capability < _CAPABILITY:
        return f"the GPU's compute capability is {capability[0]}.{capability[1]}, not {_CAPABILITY[0]}.{_CAPABILITY[1]}"
    return None


def applies(query: torch.Tensor, value: torch.Tensor, dropout: float) -> bool:
    """Whether the fused function applies to tensors like these, [..., size] in the dtype of the computation.

    If not on a GPU, attention runs document by document, which is logged once.
    """
    if not query.is_cuda:
        return False
    reason = refusal(
        dtype=query.dtype,
        head_sizes=(query.shape[-1], value.shape[-1]),
        dropout=dropout,
        capability=_capability(query.device),
    )
    if reason is not None:
        _say(reason)
    return reason is None


@asked_once
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)


@cache
def _say(reason: str) -> None:
    warnings.warn(f"attention runs document by document, slower than it could: {reason}", stacklevel=2)
