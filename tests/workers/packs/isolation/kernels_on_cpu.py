"""The kernels of flash-linear-attention, causal-conv1d and mamba-ssm on a CPU: functions with their signatures, which
compute what Transformers' own do, for each document or, where they forget boundaries, for the whole row."""

import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.nn.functional import rms_norm, silu
from transformers.integrations.hub_kernels import use_kernel_func_from_hub_with_fallback
from transformers.models.mamba2 import modeling_mamba2
from transformers.models.qwen3_next import modeling_qwen3_next

_CONVOLUTION = modeling_qwen3_next.causal_conv1d_fn.__wrapped__
_DELTA = modeling_qwen3_next.torch_chunk_gated_delta_rule.__wrapped__
_SCAN = modeling_mamba2.mamba2_chunk_scan.__wrapped__
# Of each kernel its package, and what Transformers calls it.
_KERNELS = {
    "causal_conv1d_fn": ("causal_conv1d", "causal_conv1d_fn"),
    "chunk_gated_delta_rule": ("fla", "torch_chunk_gated_delta_rule"),
    "mamba_chunk_scan_combined": ("mamba_ssm", "mamba2_chunk_scan"),
    "mamba_split_conv1d_scan_combined": ("mamba_ssm", "mamba2_split_conv1d_scan_combined"),
}


def install(monkeypatch: pytest.MonkeyPatch, kind: str, forgetful: str = "") -> None:
    """Install them for models of this ``model_type``, as importing Transformers would if their packages were there.

    ``forgetful`` names a kernel that takes boundaries and ignores them; with ``backward`` before its name, its
    gradients do.
    """
    made = _made(forgetful.removeprefix("backward "))
    if forgetful.startswith("backward "):
        name = forgetful.removeprefix("backward ")
        made[name] = _forgetful_backwards(_made("")[name], made[name])
    modeling = import_module(f"transformers.models.{kind}.modeling_{kind}")
    for name, (package, called) in _KERNELS.items():
        module = sys.modules.get(package) or ModuleType(package)
        monkeypatch.setitem(sys.modules, package, module)
        monkeypatch.setattr(module, name, made[name], raising=False)
        if hasattr(modeling, called):
            wrap = use_kernel_func_from_hub_with_fallback(name, package)
            monkeypatch.setattr(modeling, called, wrap(getattr(modeling, called).__wrapped__))


def _made(forgetful: str) -> dict[str, Callable[..., Any]]:
    def causal_conv1d_fn(
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        seq_idx: torch.Tensor | None = None,
        initial_states: Any = None,
        return_final_states: bool = False,
        final_states_out: Any = None,
        activation: str | None = None,
    ) -> torch.Tensor:
        lengths = _lengths(seq_idx, x.shape[2], forgetful, "causal_conv1d_fn")
        return torch.cat([_CONVOLUTION(part, weight, bias, activation) for part in x.split(lengths, 2)], 2)

    def chunk_gated_delta_rule(
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        g: torch.Tensor,
        beta: torch.Tensor,
        scale: float | None = None,
        initial_state: Any = None,
        output_final_state: bool = False,
        use_qk_l2norm_in_kernel: bool = False,
        cu_seqlens: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, Any]:
        assert not kwargs
        normal = {"use_qk_l2norm_in_kernel": use_qk_l2norm_in_kernel}
        if output_final_state:
            assert cu_seqlens is None
            whole: tuple[torch.Tensor, Any] = _DELTA(q, k, v, g, beta, output_final_state=True, **normal)
            return whole
        lengths = (
            [q.shape[1]] if cu_seqlens is None or forgetful == "chunk_gated_delta_rule" else cu_seqlens.diff().tolist()
        )
        parts = zip(*(each.split(lengths, 1) for each in (q, k, v, g, beta)), strict=True)
        return torch.cat([_DELTA(*part, **normal)[0] for part in parts], 1), None

    def mamba_chunk_scan_combined(
        x: torch.Tensor,
        dt: torch.Tensor,
        A: torch.Tensor,
        B: torch.Tensor,
        C: torch.Tensor,
        chunk_size: int,
        D: Any = None,
        z: Any = None,
        dt_bias: Any = None,
        initial_states: Any = None,
        seq_idx: torch.Tensor | None = None,
        cu_seqlens: Any = None,
        dt_softplus: bool = False,
        dt_limit: tuple[float, float] = (0.0, float("inf")),
        return_final_states: bool = False,
        return_varlen_states: bool = False,
    ) -> torch.Tensor:
        lengths = _lengths(seq_idx, x.shape[1], forgetful, "mamba_chunk_scan_combined")
        beside = {"D": D, "dt_bias": dt_bias, "dt_softplus": dt_softplus, "dt_limit": dt_limit}
        parts = zip(*(each.split(lengths, 1) for each in (x, dt, B, C)), strict=True)
        return torch.cat([_SCAN(x, dt, A, B, C, chunk_size, **beside) for x, dt, B, C in parts], 1)

    def mamba_split_conv1d_scan_combined(
        zxbcdt: torch.Tensor,
        conv1d_weight: torch.Tensor,
        conv1d_bias: torch.Tensor | None,
        dt_bias: torch.Tensor,
        A: torch.Tensor,
        D: torch.Tensor,
        chunk_size: int,
        initial_states: Any = None,
        seq_idx: torch.Tensor | None = None,
        dt_limit: tuple[float, float] = (0.0, float("inf")),
        return_final_states: bool = False,
        activation: str = "silu",
        rmsnorm_weight: torch.Tensor | None = None,
        rmsnorm_eps: float = 1e-6,
        outproj_weight: torch.Tensor | None = None,
        outproj_bias: torch.Tensor | None = None,
        headdim: int | None = None,
        ngroups: int = 1,
        norm_before_gate: bool = True,
    ) -> torch.Tensor:
        assert outproj_weight is not None
        heads = len(dt_bias)
        width = heads * (headdim or 0)
        if forgetful == "mamba_split_conv1d_scan_combined":
            seq_idx = None
        gate, mixed, dt = zxbcdt.split([width, zxbcdt.shape[-1] - width - heads, heads], -1)
        mixed = causal_conv1d_fn(mixed.mT, conv1d_weight, conv1d_bias, seq_idx, activation=activation).mT
        x, B, C = mixed.split([width, *[(mixed.shape[-1] - width) // 2] * 2], -1)
        x, B, C = (each.unflatten(-1, (count, -1)) for each, count in ((x, heads), (B, ngroups), (C, ngroups)))
        beside = {"D": D, "dt_bias": dt_bias, "seq_idx": seq_idx, "dt_softplus": True, "dt_limit": dt_limit}
        found = mamba_chunk_scan_combined(x, dt, A, B, C, chunk_size, **beside).flatten(2)
        if rmsnorm_weight is None:
            found = found * silu(gate)
        else:
            assert not norm_before_gate
            grouped = (found * silu(gate)).unflatten(-1, (ngroups, -1))
            found = rms_norm(grouped, grouped.shape[-1:], eps=rmsnorm_eps).flatten(-2) * rmsnorm_weight
        return torch.nn.functional.linear(found, outproj_weight, outproj_bias)

    return {name: made for name, made in locals().items() if name in _KERNELS}


def _forgetful_backwards(honest: Callable[..., Any], forgetful: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(honest)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        right, wrong = honest(*args, **kwargs), forgetful(*args, **kwargs)
        if isinstance(right, tuple):
            return right[0].detach() + wrong[0] - wrong[0].detach(), None
        return right.detach() + wrong - wrong.detach()

    return kernel


def _lengths(seq_idx: torch.Tensor | None, tokens: int, forgetful: str, name: str) -> list[int]:
    if seq_idx is None or forgetful == name:
        return [tokens]
    assert seq_idx.dtype == torch.int32
    assert seq_idx.shape == (1, tokens)
    lengths: list[int] = seq_idx[0].unique_consecutive(return_counts=True)[1].tolist()
    return lengths
