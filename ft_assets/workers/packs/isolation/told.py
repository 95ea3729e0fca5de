"""Layers that mix neighbouring tokens, told where documents begin: linear attention, state-space layers, short
convolutions.

Transformers passes ``cu_seq_lens_q`` and ``seq_idx`` to the kernels of such layers (flash-linear-attention, mamba-ssm,
causal-conv1d), and raises without those kernels. Whether the installed ones keep documents apart, in their gradients
too, is tried on the device that trains.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from ft_assets.workers.packs.format import Window
from ft_assets.workers.packs.isolation.architectures import REMEDY, mixing_layers, takes_boundaries, text_part
from ft_assets.workers.packs.isolation.batches import MicroBatch, as_row
from ft_assets.workers.packs.isolation.forward import token_losses
from ft_assets.workers.packs.isolation.leak_check import compare
from ft_resources.errors import BadBase

TOLD = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "seq_idx")


@dataclass(frozen=True, kw_only=True, slots=True)
class Arithmetic:
    """A model's device and dtypes; ``half`` is the dtype of autocast, None without it."""

    device: str = "cpu"
    weights: torch.dtype = torch.float32
    half: torch.dtype | None = None

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of queries, keys and values."""
        return self.half or self.weights

    @property
    def rounding(self) -> float:
        """How far gradients may be apart, relative to their length. Seen on a CPU: 0.002 in bfloat16 and 4e-7 in
        float32; a leak moves them by 0.1 to 1."""
        return 2e-2 if self.dtype.itemsize < 4 else 2e-3


def tell(model: torch.nn.Module) -> None:
    """Hand boundaries to the layers of ``model`` that mix tokens, on their device. Telling twice changes nothing."""
    for module in text_part(model).modules():
        if takes_boundaries(module) and not _hooks(module):
            module.register_forward_pre_hook(_Told(), with_kwargs=True)


def is_told(model: torch.nn.Module) -> bool:
    """Whether ``model`` has layers that ``tell`` hands boundaries to."""
    return bool(_hooks(model))


class _Told:
    """The hook of one layer. Kernels read boundaries on their device, and attention on the CPU."""

    told = True

    def __call__(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if not self.told:
            return args, {name: value for name, value in kwargs.items() if name not in TOLD}
        device = {"cu_seq_lens_q": kwargs["cu_seq_lens_k"]} if "cu_seq_lens_k" in kwargs else {}
        return args, {**kwargs, **device}


def _hooks(model: torch.nn.Module) -> list[_Told]:
    return [
        hook for module in model.modules() for hook in module._forward_pre_hooks.values() if isinstance(hook, _Told)
    ]


@contextmanager
def _untold(model: torch.nn.Module) -> Iterator[None]:
    """While inside, the layers are not told where documents begin."""
    hooks = _hooks(model)
    for hook in hooks:
        hook.told = False
    try:
        yield
    finally:
        for hook in hooks:
            hook.told = True


def require_kept_apart(model: Any, documents: Window, arithmetic: Arithmetic) -> None:
    """Raise BadBase unless the layers of ``model``, a tiny one, keep ``documents`` of one row apart.

    Losses in evaluation and gradients in training are compared with those of each document alone in a row. Both must
    differ if the layers are not told: a trial that cannot see a leak proves nothing.
    """
    model.to(arithmetic.device, arithmetic.weights)
    layers, half = mixing_layers(model.config, type(model)), arithmetic.half
    with torch.autocast(arithmetic.device.partition(":")[0], dtype=half, enabled=half is not None):
        packed, alone = _gradients(model, documents), _gradients(model, documents, alone=True)
        with _untold(model):
            leaking = _gradients(model, documents)
            seen = not compare(model, None, documents, half_precision=half is not None, compiled=True).passed
        passed = compare(model, None, documents, half_precision=half is not None, compiled=True).passed
    if not passed or _apart(packed, alone) > arithmetic.rounding:
        reason = "whose kernels do not keep documents apart"
    elif not seen or _apart(leaking, alone) <= arithmetic.rounding:
        reason = "and a leak through them would not be seen"
    else:
        return
    raise BadBase(f"{layers}, {reason}, by trial at tiny size", where="base_model", remedy=REMEDY)


def _gradients(model: Any, documents: Window, *, alone: bool = False) -> torch.Tensor:
    """Gradients of the summed losses, float32 [parameters]; with ``alone`` each document has its own row, and the
    layers are told nothing."""
    row = as_row(documents)
    rows = [row.every(number, row.documents) for number in range(row.documents)] if alone else [row]
    model.requires_grad_(True).train()
    try:
        with torch.enable_grad():
            for each in rows:
                _losses(model, each, alone).backward()
        return torch.cat([each.grad.float().flatten() for each in model.parameters() if each.grad is not None])
    finally:
        model.zero_grad(set_to_none=True)
        model.eval().requires_grad_(False)


def _losses(model: Any, row: MicroBatch, alone: bool) -> torch.Tensor:
    moved = row.to(next(model.parameters()).device)
    if not alone:
        return token_losses(model, moved).sum()
    with _untold(model):
        return token_losses(model, moved).sum()


def _apart(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The relative distance of two gradients; infinite if it is not a number."""
    if found.shape != expected.shape:
        return float("inf")
    distance = float((found - expected).norm() / expected.norm())
    return distance if distance == distance else float("inf")
