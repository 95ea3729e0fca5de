"""Trials of optional kernels: each computes a small example, forward and backward, and is held to plain PyTorch.

A trial takes the device. It raises ValueError for wrong numbers, and whatever the kernel raises.
"""

# ruff: noqa: TID253 -- called by workers only, once torch is needed anyway.

from collections.abc import Callable, Sequence

import torch
from torch.nn.functional import conv1d, silu, softplus

_APART = 0.05
"""Tolerated distance of results, relative to their norm. Half precision causes less than 0.02."""
_TOKENS, _HEADS, _SIZE = 96, 2, 64


def causal_convolution(device: torch.device) -> None:
    """causal-conv1d: the convolution of neighbouring tokens in short convolutions and state-space layers."""
    from causal_conv1d import causal_conv1d_fn

    def plain(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        mixed = conv1d(x, weight[:, None], bias, padding=weight.shape[1] - 1, groups=len(weight))
        return silu(mixed[..., : x.shape[-1]])

    def kernel(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = causal_conv1d_fn(x, weight, bias, activation="silu")
        return found

    require_alike(kernel, plain, draw(device, (1, _SIZE, _TOKENS), (_SIZE, 4), (_SIZE,)))


def state_space(device: torch.device) -> None:
    """mamba-ssm: the scan of Mamba-2, by chunks."""
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined

    def kernel(
        x: torch.Tensor, dt: torch.Tensor, decay: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor
    ) -> torch.Tensor:
        found: torch.Tensor = mamba_chunk_scan_combined(
            x, dt, -decay.float().exp(), b, c, chunk_size=64, D=d, dt_softplus=True
        )
        return found

    # One group shares B and C between the heads.
    row, shared = (1, _TOKENS, _HEADS, _SIZE), (1, _TOKENS, 1, 16)
    require_alike(kernel, _scanned, draw(device, row, row[:3], (_HEADS,), shared, shared, (_HEADS,)))


def _scanned(
    x: torch.Tensor, dt: torch.Tensor, decay: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor
) -> torch.Tensor:
    """Token by token: ``state = exp(dt·A)·state + dt·x⊗B`` and ``y = state·C + D·x`` (Dao & Gu, 2024,
    https://arxiv.org/abs/2405.21060)."""
    steps, state, found = softplus(dt), x.new_zeros(*x.shape[:1], *x.shape[2:], b.shape[-1]), []
    for now in range(x.shape[1]):
        step = steps[:, now, :, None, None]
        kept = (-decay.exp()[:, None, None] * step).exp() * state
        state = kept + step * x[:, now, :, :, None] * b[:, now, :, None]
        found.append((state * c[:, now, :, None]).sum(-1) + d[:, None] * x[:, now])
    return torch.stack(found, 1)


def gated_delta_rule(device: torch.device) -> None:
    """flash-linear-attention: the rule of Qwen3-Next's and Qwen3.5's linear attention, by chunks."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    def kernel(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, forget: torch.Tensor, beta: torch.Tensor
    ) -> torch.Tensor:
        found: torch.Tensor = chunk_gated_delta_rule(
            q, k, v, -softplus(forget.float()), beta.sigmoid(), use_qk_l2norm_in_kernel=True
        )[0]
        return found

    row = (1, _TOKENS, _HEADS, _SIZE)
    require_alike(kernel, _ruled, draw(device, row, row, row, row[:3], row[:3]))


def _ruled(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, forget: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    """Token by token: the state decays, its answer to ``k`` is moved towards ``v``, and it is read by ``q`` (Yang et
    al., 2024, https://arxiv.org/abs/2412.06464)."""
    q, k = (each / each.norm(dim=-1, keepdim=True) for each in (q, k))
    kept, state, found = (-softplus(forget)).exp(), q.new_zeros(1, _HEADS, _SIZE, _SIZE), []
    for now in range(q.shape[1]):
        state = kept[:, now, :, None, None] * state
        answer = (state * k[:, now, :, :, None]).sum(-2)
        change = beta[:, now, :, None].sigmoid() * (v[:, now] - answer)
        state = state + k[:, now, :, :, None] * change[:, :, None]
        found.append((state * q[:, now, :, :, None]).sum(-2) / _SIZE**0.5)
    return torch.stack(found, 1)


def draw(device: torch.device, *shapes: tuple[int, ...]) -> list[torch.Tensor]:
    """Tensors that require gradients, the same each time; in bfloat16, as some kernels do not take float32."""
    generator = torch.Generator().manual_seed(0)
    drawn = (torch.randn(shape, generator=generator) for shape in shapes)
    return [each.to(device, torch.bfloat16).requires_grad_() for each in drawn]


@torch.enable_grad()
def require_alike(
    kernel: Callable[..., torch.Tensor], plain: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor]
) -> None:
    """Raise ValueError unless ``kernel(*inputs)`` is what ``plain`` gives in float32, with the same gradients."""
    full = [each.detach().float().requires_grad_() for each in inputs]
    expected, found = plain(*full), kernel(*inputs)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1)).to(expected.device)
    require_near(
        [found, *torch.autograd.grad((found.float() * weights).sum(), inputs)],
        [expected, *torch.autograd.grad((expected * weights).sum(), full)],
    )


def require_near(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> None:
    """Raise ValueError unless each tensor is near the expected one."""
    for mine, theirs in zip(found, expected, strict=True):
        # Negated, as every comparison with NaN is false.
        if mine.shape != theirs.shape or not (mine.float() - theirs).norm() <= _APART * theirs.norm():
            raise ValueError("its results are not those of a plain computation")
