"""Fused attention over documents of differing lengths on a GPU: which function does it, and when it may.

flash-attn's where that is installed, else PyTorch's own (``torch.nn.attention.varlen``, torch >= 2.10), else none; then
the caller runs document by document. Neither function has run on a GPU in this project's tests: they are tested
with stand-ins of the same signatures, which compute densely.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import torch

_MAX_HEAD_SIZE = 256
_HEAD_SIZE_STEP = 8
_CAPABILITY = (8, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """How a document attends: ``window`` is how many tokens a token sees, itself included (None: all before it)."""

    dropout: float = 0.0
    scale: float | None = None
    window: int | None = None


Attend: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, int, Rule], torch.Tensor]
"""Causal attention inside each document: ``(query, key, value, offsets, longest, rule)``.

``query`` is [tokens, heads, size], ``key`` and ``value`` [tokens, fewer or as many heads, size], ``offsets`` int32
[documents + 1] on their device, ``longest`` the most tokens of a document. Returns [tokens, heads, size].
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """A fused function under its name, and whether it can drop attention weights."""

    name: str
    attend: Attend
    has_dropout: bool


def flash_attn_kernel(function: Callable[..., Any]) -> Kernel:
    """``flash_attn.flash_attn_varlen_func`` as a kernel. Its window counts tokens before and behind, not itself."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, at: torch.Tensor, longest: int, rule: Rule) -> Any:
        window = (-1, -1) if rule.window is None else (rule.window - 1, 0)
        options = {"dropout_p": rule.dropout, "softmax_scale": rule.scale, "causal": True, "window_size": window}
        return function(q, k, v, at, at, longest, longest, **options)

    return Kernel(name="flash-attn", attend=attend, has_dropout=True)


def torch_kernel(function: Callable[..., Any]) -> Kernel:
    """``torch.nn.attention.varlen.varlen_attn`` as a kernel; causal is its window (-1, 0), and it drops nothing."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, at: torch.Tensor, longest: int, rule: Rule) -> Any:
        assert not rule.dropout
        window = (-1 if rule.window is None else rule.window - 1, 0)
        options = {"scale": rule.scale, "window_size": window, "enable_gqa": k.shape[1] != q.shape[1]}
        return function(q, k, v, at, at, longest, longest, **options)

    return Kernel(name="torch varlen_attn", attend=attend, has_dropout=False)


@cache
def installed_kernel() -> Kernel | None:
    """The fused function that this installation has; looked for once."""
    try:
        from flash_attn import flash_attn_varlen_func
    except ImportError:
        pass
    else:
        return flash_attn_kernel(flash_attn_varlen_func)
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return torch_kernel(varlen_attn)


def refusal(
    kernel: Kernel,
    *,
    dtype: torch.dtype,
    head_sizes: tuple[int, int],
    dropout: float,
    capability: tuple[int, int],
) -> str | None:
    """Why ``kernel`` cannot do this, or None. ``head_sizes`` are those of queries and of values."""
    size, value_size = head_sizes
    if dtype not in (torch.float16, torch.bfloat16):
        return f"it computes in half precision, not in {dtype}"
    if size != value_size:
        return f"queries have {size} numbers a head, values {value_size}"
    if size > _MAX_HEAD_SIZE or size % _HEAD_SIZE_STEP:
        return f"a head of {size} numbers is not a multiple of {_HEAD_SIZE_STEP} up to {_MAX_HEAD_SIZE}"
    if dropout and not kernel.has_dropout:
        return "it has no dropout"
    if capability < _CAPABILITY:
        return f"the GPU's compute capability is {capability[0]}.{capability[1]}, not {_CAPABILITY[0]}.{_CAPABILITY[1]}"
    return None


def kernel_for(query: torch.Tensor, value: torch.Tensor, dropout: float) -> Kernel | None:
    """The fused function for tensors like these, or None: then document by document, which is said once.

    Tensors are [..., size] in the dtype that the attention is computed in.
    """
    if not query.is_cuda:
        return None
    kernel = installed_kernel()
    if kernel is None:
        _say("neither flash-attn nor torch's varlen_attn is installed")
        return None
    reason = refusal(
        kernel,
        dtype=query.dtype,
        head_sizes=(query.shape[-1], value.shape[-1]),
        dropout=dropout,
        capability=_capability(query.device),
    )
    if reason is not None:
        _say(f"{kernel.name} is not used: {reason}")
        return None
    return kernel


@cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)


@cache
def _say(reason: str) -> None:
    warnings.warn(f"attention runs document by document, slower than it could: {reason}", stacklevel=2)
