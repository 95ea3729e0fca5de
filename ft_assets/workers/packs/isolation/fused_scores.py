"""Fused attention with changed scores (``scores``) over documents of different lengths, on a GPU.

flash-attn knows softcaps; PyTorch's FlexAttention, compiled, knows softcaps and sinks. A function is used only if its
output and gradients are those of ``scores.attend`` on this GPU, for heads like the model's.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.weak import WeakTensorKeyDictionary
from transformers.integrations.flex_attention import get_flex_attention_lse_kwargs

from ft_assets.workers.libraries import accepts
from ft_assets.workers.packs.isolation.constants import asked_once
from ft_assets.workers.packs.isolation.newest_flash import require_same
from ft_assets.workers.packs.isolation.scores import Changes, attend
from ft_assets.workers.packs.isolation.varlen import flash_attn

Heads = tuple[int, int, int]
"""Heads of queries, heads of keys, and the numbers of each."""
Fused = Callable[..., torch.Tensor]
_ROWS = ((70, 58), (33, 120, 50))
_WINDOW = 40
_SOFTCAP = 1.0
_masks: Any = WeakTensorKeyDictionary()


def can_fuse(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, dropout: float, changes: Changes) -> bool:
    """Whether ``attend_fused`` applies to tensors like these, [..., heads, tokens, size]."""
    if not query.is_cuda or dropout or query.shape[-1] != value.shape[-1]:
        return False
    heads = (query.shape[-3], key.shape[-3], query.shape[-1])
    return fused(query.device, query.dtype, heads, changes.softcap is not None, changes.sinks is not None) is not None


def attend_fused(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    offsets: torch.Tensor,
    longest: int,
    scale: float | None,
    window: int | None,
    changes: Changes,
) -> torch.Tensor:
    """Causal attention inside each document, [tokens, heads, size]; arguments as ``varlen.attend`` has them."""
    heads = (q.shape[1], k.shape[1], q.shape[2])
    function = fused(q.device, q.dtype, heads, changes.softcap is not None, changes.sinks is not None)
    assert function is not None
    return function(q, k, v, offsets, longest, scale, window, changes)


@asked_once
def fused(device: torch.device, dtype: torch.dtype, heads: Heads, softcap: bool, sinks: bool) -> Fused | None:
    """The function that computes attention with these changes correctly on this device, or None."""
    for function in _candidates(dtype, sinks):
        try:
            require_right(function, device, dtype, heads, softcap, sinks)
        except Exception as error:  # Kernels and compilers raise what they like on a GPU that they do not know.
            warnings.warn(f"{function.__name__.strip('_')} is not used: {error}", stacklevel=2)
        else:
            return function
    return None


@torch.enable_grad()
def require_right(
    function: Fused, device: torch.device, dtype: torch.dtype, heads: Heads, softcap: bool, sinks: bool
) -> None:
    """Raise ValueError unless ``function`` gives what ``scores.attend`` gives for each document, with the same
    gradients, in rows of several lengths, with and without a window."""
    draw = torch.Generator().manual_seed(0)
    rounding = 0.05 if dtype.itemsize < 4 else 0.01

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw).to(device, dtype).requires_grad_()

    changes = Changes(_SOFTCAP if softcap else None, random(heads[0]) if sinks else None)
    for lengths, window in ((_ROWS[0], None), (_ROWS[1], _WINDOW)):
        q, k, v = (random(sum(lengths), each, heads[2]) for each in (heads[0], heads[1], heads[1]))
        offsets = torch.tensor([0, *lengths], device=device).cumsum(0).int()
        rows = zip(*(each.transpose(0, 1)[None].split(lengths, 2) for each in (q, k, v)), strict=True)
        with torch.autocast(device.type, enabled=False):
            found = function(q, k, v, offsets, max(lengths), None, window, changes)
            alone = [attend(row[0], row[1], row[2], 0.0, None, changes, window=window) for row in rows]
            expected = torch.cat(alone, 2)[0].transpose(0, 1)
            asked = (q, k, v) if changes.sinks is None else (q, k, v, changes.sinks)
            require_same(found, expected, asked, draw, rounding)


def _candidates(dtype: torch.dtype, sinks: bool) -> Iterator[Fused]:
    flash = flash_attn()
    if flash is not None and not sinks and dtype.itemsize < 4 and accepts(flash, "softcap"):
        yield _flash_attn
    yield _flex_attention


def _flash_attn(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    offsets: torch.Tensor,
    longest: int,
    scale: float | None,
    window: int | None,
    changes: Changes,
) -> torch.Tensor:
    flash = flash_attn()
    assert flash is not None
    ends = (-1, -1) if window is None else (window - 1, 0)
    places = (q, k, v, offsets, offsets, longest, longest)
    found: torch.Tensor = flash(
        *places, softmax_scale=scale, causal=True, window_size=ends, softcap=changes.softcap or 0.0
    )
    return found


@torch.compiler.disable
def _flex_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    offsets: torch.Tensor,
    longest: int,
    scale: float | None,
    window: int | None,
    changes: Changes,
) -> torch.Tensor:
    cap, sinks = changes.softcap, changes.sinks

    def capped(score: Any, *_: Any) -> Any:
        return score if cap is None else cap * torch.tanh(score / cap)

    attention, _ = compiled()
    # The kernels share keys among a power of two of heads.
    if q.shape[1] & (q.shape[1] - 1):
        k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], 1) for each in (k, v))
    result, beside = attention(
        *(each.transpose(0, 1)[None] for each in (q, k, v)),
        score_mod=capped,
        block_mask=_mask_of(offsets, q.shape[0], window),
        scale=scale,
        enable_gqa=q.shape[1] != k.shape[1],
        **get_flex_attention_lse_kwargs(True),
    )
    if sinks is not None:
        # A sink adds to the denominator of a softmax, whose logarithm comes beside the result.
        share = torch.sigmoid(getattr(beside, "lse", beside) - sinks.float()[None, :, None])
        result = (result * share[..., None]).to(v.dtype)
    found: torch.Tensor = result[0].transpose(0, 1)
    return found


def _mask_of(offsets: torch.Tensor, tokens: int, window: int | None) -> Any:
    """FlexAttention's mask of a row's documents, made once for all layers."""
    known = _masks.setdefault(offsets, {})
    if window not in known:
        documents = torch.bucketize(torch.arange(tokens, device=offsets.device), offsets[1:], right=True)
        reach = tokens if window is None else window

        def seen(_row: Any, _head: Any, query: Any, key: Any) -> Any:
            back = query - key
            return (documents[query] == documents[key]) & (back >= 0) & (back < reach)

        _, mask = compiled()
        known[window] = mask(seen, None, None, tokens, tokens, device=offsets.device)
    return known[window]


@cache
def compiled() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """FlexAttention and the function that makes its masks, compiled for rows of any length: uncompiled ones would hold
    every score in memory."""
    return torch.compile(flex_attention, dynamic=True), torch.compile(create_block_mask, dynamic=True)
