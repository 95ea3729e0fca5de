"""Kernels for attention over documents, computed densely on a CPU.

``install`` puts them below PyTorch's ``varlen_attn``, whose operators, gradients and shapes are PyTorch's own, as
``torch.compile`` sees them on a GPU. ``dense`` is the computation by itself, also with flash-attn's signature.
"""

from functools import cache
from typing import Any

import torch


@cache
def install() -> torch.library.Library:
    """For the rest of this process."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("_flash_attention_forward", _forward, "CPU")
    library.impl("_flash_attention_backward", _backward, "CPU")
    return library


def dense(
    q: Any, k: Any, v: Any, offsets: Any, scale: float | None = None, left: int = -1, softcap: float = 0.0
) -> torch.Tensor:
    """[tokens, heads, size]; a query sees its document's keys up to itself, and ``left`` before it (-1: all)."""
    shares = _scores(q, k, offsets, scale, left, softcap).softmax(-1)
    return torch.einsum("hqk,khd->qhd", shares, _spread(v, q)).to(q.dtype).contiguous()


def flash_attn_varlen_func(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
) -> torch.Tensor:
    assert causal
    assert not dropout_p
    assert max_seqlen_q == max_seqlen_k == int(cu_seqlens_q.diff().max())
    assert cu_seqlens_q.dtype == torch.int32
    assert torch.equal(cu_seqlens_q, cu_seqlens_k)
    return dense(q, k, v, cu_seqlens_q, softmax_scale, window_size[0], softcap)


def _scores(q: Any, k: Any, offsets: Any, scale: float | None, left: int | None, softcap: float = 0.0) -> torch.Tensor:
    """[heads, queries, keys]"""
    places = torch.arange(len(q))
    document = torch.bucketize(places, offsets[1:].long(), right=True)
    back = places[:, None] - places[None]
    seen = (document[:, None] == document[None]) & (back >= 0)
    if left is not None and left >= 0:
        seen &= back <= left
    scores = torch.einsum("qhd,khd->hqk", q.float(), _spread(k, q)) * _scale(q, scale)
    if softcap:
        scores = softcap * (scores / softcap).tanh()
    return scores.masked_fill(~seen, -torch.inf)


def _scale(q: Any, scale: float | None) -> float:
    return q.shape[-1] ** -0.5 if scale is None else scale


def _spread(shared: Any, q: Any) -> torch.Tensor:
    """Keys or values, once for each head that shares them."""
    return shared.float().repeat_interleave(q.shape[1] // shared.shape[1], 1)


def _forward(
    q: Any,
    k: Any,
    v: Any,
    offsets: Any,
    of_keys: Any,
    longest: int,
    longest_key: int,
    dropout: float,
    causal: bool,
    return_debug_mask: bool,
    *,
    scale: float | None = None,
    window_size_left: int | None = None,
    window_size_right: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, ...]:
    assert causal or window_size_right == 0
    assert int(offsets.diff().max()) == longest == longest_key
    scores = _scores(q, k, offsets, scale, window_size_left)
    out = torch.einsum("hqk,khd->qhd", scores.softmax(-1), _spread(v, q)).to(q.dtype).contiguous()
    nothing = torch.empty(0)
    return out, scores.logsumexp(-1), torch.zeros(2, dtype=torch.uint64), nothing, nothing


def _backward(
    gradient: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    logsumexp: Any,
    offsets: Any,
    *_: Any,
    scale: float | None = None,
    window_size_left: int | None = None,
    **__: Any,
) -> tuple[torch.Tensor, ...]:
    shares = (_scores(q, k, offsets, scale, window_size_left) - logsumexp[..., None]).exp()
    gradient = gradient.float()
    of_shares = torch.einsum("qhd,khd->hqk", gradient, _spread(v, q))
    of_scores = shares * (of_shares - (gradient * out.float()).sum(-1).t()[..., None]) * _scale(q, scale)

    def together(each: torch.Tensor, like: Any) -> torch.Tensor:
        return each.unflatten(1, (like.shape[1], -1)).sum(2).to(like.dtype).contiguous()

    return (
        torch.einsum("hqk,khd->qhd", of_scores, _spread(k, q)).to(q.dtype).contiguous(),
        together(torch.einsum("hqk,qhd->khd", of_scores, q.float()), k),
        together(torch.einsum("hqk,qhd->khd", shares, gradient), v),
    )
