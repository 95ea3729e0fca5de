"""``training.precision: fp8``: matrix products of the layers in 8-bit floats, everything else as under bf16.

By torchao's float8 training (https://docs.pytorch.org/ao/stable/workflows/training.html): inputs, weights and gradients
are cast for each product, with a scale per row, and the result is bf16. Weights keep their dtype and names, so saves,
exports and evaluation need not know. A scale per row keeps the documents of a packed row apart: with one scale for all
rows a document would change the rounding of another.

Uncompiled, casting takes more time than the products save, and the gradient of a frozen weight is computed for nothing;
compiled layers avoid both (``docs/decisions/fp8-is-torchaos-by-row.md``).
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from transformers.modeling_layers import GradientCheckpointingLayer

from ft_assets.workers.model_size.float8 import can_be_float8, pays_in_float8
from ft_resources.errors import BadRecipe, UserError

_CAPABILITY = (8, 9)
"""Compute capability of the first GPUs that multiply 8-bit floats: Ada; Hopper has 9.0."""
_ROUTERS = ("gate", "router", "shared_expert_gate")
"""Stay in bf16: small differences decide which experts a token goes to."""


def multiply_in_float8(model: Any, *, emulated: bool) -> int:
    """Compute products with the large matrices in the layers of ``model`` in 8 bits; returns their number.

    Output layer, embeddings, routers, experts (tensors, not layers) and matrices that are too small to gain from it
    stay in bf16. ``emulated``: the same rounding on hardware without such products, for every size that allows it.

    Raises UserError if torchao is missing or the GPU has no 8-bit floats; BadRecipe if no matrix is large enough.
    """
    if not emulated and not multiplies_float8(torch.device("cuda")):
        raise UserError(
            f"{torch.cuda.get_device_name()} does not multiply 8-bit floats",
            where="training.precision",
            remedy="Use precision bf16, or a GPU of compute capability 8.9 and above, such as L40S or H100.",
        )
    chosen = _chosen(model, emulated=emulated)
    if not chosen:
        raise BadRecipe(
            "no matrix in the layers of this base is large enough to be multiplied faster in 8 bits",
            where="training.precision",
            remedy="Use precision bf16.",
        )
    with_scales_by_row(model, emulated=emulated, takes=lambda module, _: id(module) in chosen)
    return len(chosen)


def with_scales_by_row(
    module: torch.nn.Module, *, emulated: bool, takes: Callable[[torch.nn.Module, str], bool] | None = None
) -> Any:
    """``module`` with the linear layers replaced for which ``takes(layer, name)`` is true, or all. Raises UserError if
    torchao is missing."""
    try:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training
    except ModuleNotFoundError as error:
        raise UserError(
            "precision fp8 needs torchao, which this worker does not have",
            where="training.precision",
            remedy="Install the extra float8 where the worker runs, or use precision bf16.",
        ) from error
    # The product for a weight's gradient sums over a row's tokens, whose number is padded to a multiple of 16.
    config = replace(Float8LinearConfig.from_recipe_name("rowwise"), pad_inner_dim=True, emulate=emulated)
    return convert_to_float8_training(module, config=config, module_filter_fn=takes)


def multiplies_float8(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= _CAPABILITY


def _chosen(model: Any, *, emulated: bool) -> set[int]:
    """Ids of the linear layers to convert: those in the decoder's layers of the text part."""
    takes = can_be_float8 if emulated else pays_in_float8
    layers = [layer for layer in model.get_decoder().modules() if isinstance(layer, GradientCheckpointingLayer)]
    return {
        id(module)
        for layer in layers
        for name, module in layer.named_modules()
        # Subclasses may compute something else.
        if type(module) is torch.nn.Linear
        and name.rpartition(".")[2] not in _ROUTERS
        and takes(module.in_features, module.out_features)
    }
