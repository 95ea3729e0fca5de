"""A linear layer and its low-rank adapter as one function: fewer passes over activation-sized tensors.

PEFT computes ``base(x) + B(A(x)) * scaling`` as four operations, each with its own output and backward. Here the
adapter's product is added into the base's (``addmm_``), forward and backward, including the scaling: a step with the
demo's model takes about a tenth less time. The result is the same up to rounding. A base in 4 bits is unpacked in the
forward pass and again in the backward pass, as bitsandbytes does.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Any

import torch
from peft.tuners.lora.layer import Linear as LoraLinear
from torch.autograd.function import once_differentiable


def join_adapters(model: Any) -> int:
    """Fuse the adapter into every linear layer of ``model`` that supports it; returns their number.

    The others stay as in PEFT: with dropout, over sharded or trained weights, and adapters other than plain LoRA.
    """
    layers = [layer for layer in model.modules() if _is_plain(layer)]
    for layer in layers:
        layer.forward = MethodType(_forward, layer)
    return len(layers)


def _is_plain(layer: Any) -> bool:
    known = type(layer) is LoraLinear and type(layer.base_layer) is torch.nn.Linear
    if not (known or _is_four_bit(layer)) or len(layer.active_adapters) > 1:
        return False
    (name,) = layer.active_adapters
    # Hooks of the modules, which are not called here, gather the shards of FSDP2 or ZeRO-3.
    weight = layer.base_layer.weight
    whole = (type(weight) is torch.nn.Parameter and not hasattr(weight, "ds_id")) or hasattr(weight, "quant_state")
    alone = name not in layer.lora_variant and isinstance(layer.lora_dropout[name], torch.nn.Identity)
    alone = alone and not any(weight.requires_grad for weight in layer.base_layer.parameters())
    return whole and alone and not layer.lora_bias[name] and not getattr(layer, "fan_in_fan_out", False)


def _is_four_bit(layer: Any) -> bool:
    # By name: bitsandbytes is imported only where something is quantised.
    names = (type(layer).__name__, type(getattr(layer, "base_layer", None)).__name__)
    return names == ("Linear4bit", "Linear4bit") and type(layer).__module__.startswith("peft.")


def _forward(self: Any, x: torch.Tensor) -> torch.Tensor:
    if self.disable_adapters or self.merged:
        return type(self).forward(self, x)
    (name,) = self.active_adapters
    base, a, b = self.base_layer, self.lora_A[name].weight, self.lora_B[name].weight
    four_bit = _is_four_bit(self)
    unpacked = partial(_unpacked if four_bit else _converted, base.weight)
    dtype = (base.compute_dtype or x.dtype) if four_bit else base.weight.dtype
    joined: torch.Tensor = _Joined.apply(x, unpacked, dtype, base.bias, a, b, self.scaling[name])
    # As bitsandbytes' own layer returns it.
    return joined.to(x.dtype) if four_bit else joined


def _converted(weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return weight.to(dtype)


def _unpacked(weight: Any, dtype: torch.dtype) -> torch.Tensor:
    from bitsandbytes.functional import dequantize_4bit

    found: torch.Tensor = dequantize_4bit(weight.data, weight.quant_state)
    return found.to(dtype)


class _Joined(torch.autograd.Function):
    """``x`` [..., in], ``unpacked(dtype)`` [out, in], ``bias`` [out] or None, ``a`` [rank, in], ``b`` [out, rank] to
    [..., out], computed in ``dtype`` or autocast's. Only ``x``, ``a`` and ``b`` have gradients: weight and bias do not
    train."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        unpacked: Callable[[torch.dtype], torch.Tensor],
        dtype: torch.dtype,
        bias: torch.Tensor | None,
        a: torch.Tensor,
        b: torch.Tensor,
        scaling: float,
    ) -> torch.Tensor:
        device = x.device.type
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
        rows = x.reshape(-1, x.shape[-1]).to(dtype)
        # Autocast would cast again what already has the right dtype, and does not allow in-place addition.
        with torch.autocast(device, enabled=False):
            base = unpacked(dtype)
            # Some models change what they get in place, which autograd forbids for a view.
            whole = rows.new_empty(*x.shape[:-1], base.shape[0])
            out = whole.view(-1, base.shape[0])
            if bias is None:
                torch.mm(rows, base.t(), out=out)
            else:
                torch.addmm(bias.to(dtype), rows, base.t(), out=out)
            small = rows @ a.to(dtype).t()
            out.addmm_(small, b.to(dtype).t(), alpha=scaling)
        ctx.save_for_backward(rows, a, b, small)
        ctx.unpacked, ctx.scaling, ctx.shape, ctx.given = unpacked, scaling, x.shape, x.dtype
        return whole

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rows, a, b, small = ctx.saved_tensors
        dtype = rows.dtype
        gradient = gradient.reshape(-1, gradient.shape[-1]).to(dtype)
        with torch.autocast(gradient.device.type, enabled=False):
            of_small = (gradient @ b.to(dtype)).mul_(ctx.scaling)
            of_x = None
            if ctx.needs_input_grad[0]:
                of_x = (gradient @ ctx.unpacked(dtype)).addmm_(of_small, a.to(dtype))
                of_x = of_x.view(ctx.shape).to(ctx.given)
            of_a = (of_small.t() @ rows).to(a.dtype)
            of_b = (gradient.t() @ small).mul_(ctx.scaling).to(b.dtype)
        return of_x, None, None, None, of_a, of_b, None
