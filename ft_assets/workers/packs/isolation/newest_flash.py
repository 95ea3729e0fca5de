"""FlashAttention 4 or 3 in place of PyTorch's own 2, where one is installed and computes right on this GPU.

PyTorch calls them prototypes, and each supports some GPUs only. So one is used only if the output and the gradients of
a small example are those of plain attention.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import warnings
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch.nn import attention
from torch.nn.functional import scaled_dot_product_attention

from ft_assets.workers.packs.isolation.constants import asked_once
from ft_assets.workers.packs.isolation.torch_varlen import attend_documents

_NEWEST_FIRST = ("FA4", "FA3")
_LENGTHS, _HEADS, _KEY_HEADS, _SIZE = (70, 58), 8, 2, 64
_ROUNDING = 0.05
"""Of numbers around 1 in half precision."""


@asked_once
def activate(device: torch.device) -> str:
    """The FlashAttention with which PyTorch's ``varlen_attn`` and SDPA compute from now on, "" for PyTorch's own."""
    for name in _NEWEST_FIRST:
        try:
            attention.activate_flash_attention_impl(name)
            require_right(device)
            return name
        except ImportError:
            continue
        except Exception as error:  # Kernels raise what they like on a GPU that they do not know.
            reason = str(error)
        if attention.current_flash_attention_impl():
            attention.restore_flash_attention_impl()
        warnings.warn(f"{name} is installed and not used: {reason}", stacklevel=2)
    return ""


@torch.enable_grad()
def require_right(device: torch.device, attend: Callable[..., torch.Tensor] = attend_documents) -> None:
    """Raise ValueError unless ``attend(q, k, v, offsets, longest)`` gives for two documents what SDPA gives for each,
    with the same gradients."""
    draw = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(sum(_LENGTHS), heads, _SIZE, generator=draw).to(device, torch.bfloat16).requires_grad_()
        for heads in (_HEADS, _KEY_HEADS, _KEY_HEADS)
    )
    offsets = torch.tensor([0, _LENGTHS[0], sum(_LENGTHS)], dtype=torch.int32, device=device)
    found = attend(q, k, v, offsets, max(_LENGTHS))
    alone = partial(scaled_dot_product_attention, is_causal=True, enable_gqa=True)
    rows = zip(*(each.transpose(0, 1)[None].split(_LENGTHS, 2) for each in (q, k, v)), strict=True)
    expected = torch.cat([alone(*row) for row in rows], 2)[0].transpose(0, 1)
    require_same(found, expected, (q, k, v), draw, _ROUNDING)


def require_same(
    found: torch.Tensor,
    expected: torch.Tensor,
    inputs: Sequence[torch.Tensor],
    draw: torch.Generator,
    rounding: float,
) -> None:
    """Raise ValueError unless two results of attention, and their gradients by ``inputs``, are equal up to
    ``rounding``."""
    weights = torch.randn(expected.shape, generator=draw).to(expected)
    mine, theirs = ((each, *torch.autograd.grad((each * weights).sum(), inputs)) for each in (found, expected))
    if not all(torch.allclose(*pair, atol=rounding, rtol=rounding) for pair in zip(mine, theirs, strict=True)):
        raise ValueError("its results are not those of plain attention")
