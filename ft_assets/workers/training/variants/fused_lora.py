"""A linear layer and its low-rank adapter as one function: fewer passes over activation-sized tensors.

PEFT computes ``base(x) + B(A(x)) * scaling`` as four operations, each with its own output and backward. Here the
adapter's product is added into the base's (``addmm_``), forward and backward, including the scaling: a step with the
demo's model takes about a tenth less time. The result is the same up to rounding.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from types import MethodType
from typing import Any

import torch
from peft.tuners.lora.layer import Linear as LoraLinear
from torch.autograd.function import once_differentiable


def join_adapters(model: Any) -> int:
    """Fuse the adapter into every linear layer of ``model`` that supports it; returns their number.

    The others stay as in PEFT: with dropout, over quantised, sharded or trained weights, and adapters other than plain
    LoRA.
    """
    layers = [layer for layer in model.modules() if _is_plain(layer)]
    for layer in layers:
        layer.forward = MethodType(_forward, layer)
    return len(layers)


def _is_plain(layer: Any) -> bool:
    if type(layer) is not LoraLinear or type(layer.base_layer) is not torch.nn.Linear or len(layer.active_adapters) > 1:
        return False
    (name,) = layer.active_adapters
    # Hooks of the modules, which are not called here, gather the shards of FSDP2 or ZeRO-3.
    whole = type(layer.base_layer.weight) is torch.nn.Parameter and not hasattr(layer.base_layer.weight, "ds_id")
    alone = name not in layer.lora_variant and isinstance(layer.lora_dropout[name], torch.nn.Identity)
    alone = alone and not any(weight.requires_grad for weight in layer.base_layer.parameters())
    return whole and alone and not layer.lora_bias[name] and not layer.fan_in_fan_out


def _forward(self: Any, x: torch.Tensor) -> torch.Tensor:
    if self.disable_adapters or self.merged:
        return type(self).forward(self, x)
    (name,) = self.active_adapters
    base, a, b = self.base_layer, self.lora_A[name].weight, self.lora_B[name].weight
    joined: torch.Tensor = _Joined.apply(x, base.weight, base.bias, a, b, self.scaling[name])
    return joined


class _Joined(torch.autograd.Function):
    """``x`` [..., in], ``weight`` [out, in], ``bias`` [out] or None, ``a`` [rank, in], ``b`` [out, rank] to [..., out];
    with gradients of ``x``, ``a`` and ``b`` only, as weight and bias do not train."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        a: torch.Tensor,
        b: torch.Tensor,
        scaling: float,
    ) -> torch.Tensor:
        dtype, device = weight.dtype, x.device.type
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
        rows = x.reshape(-1, x.shape[-1]).to(dtype)
        # Autocast would cast again what already has the right dtype, and does not allow in-place addition.
        with torch.autocast(device, enabled=False):
            base = weight.to(dtype)
            # Some models change what they get in place, which autograd forbids for a view.
            whole = rows.new_empty(*x.shape[:-1], base.shape[0])
            out = whole.view(-1, base.shape[0])
            if bias is None:
                torch.mm(rows, base.t(), out=out)
            else:
                torch.addmm(bias.to(dtype), rows, base.t(), out=out)
            small = rows @ a.to(dtype).t()
            out.addmm_(small, b.to(dtype).t(), alpha=scaling)
        ctx.save_for_backward(rows, weight, a, b, small)
        ctx.scaling, ctx.shape, ctx.given = scaling, x.shape, x.dtype
        return whole

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rows, weight, a, b, small = ctx.saved_tensors
        dtype = rows.dtype
        gradient = gradient.reshape(-1, gradient.shape[-1]).to(dtype)
        with torch.autocast(gradient.device.type, enabled=False):
            of_small = (gradient @ b.to(dtype)).mul_(ctx.scaling)
            of_x = None
            if ctx.needs_input_grad[0]:
                of_x = (gradient @ weight.to(dtype)).addmm_(of_small, a.to(dtype))
                of_x = of_x.view(ctx.shape).to(ctx.given)
            of_a = (of_small.t() @ rows).to(a.dtype)
            of_b = (gradient.t() @ small).mul_(ctx.scaling).to(b.dtype)
        return of_x, None, None, of_a, of_b, None
