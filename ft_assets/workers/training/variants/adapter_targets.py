"""Which weights of a model low-rank adapters change."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import inspect
import re
from collections.abc import Iterable
from typing import Any

import torch
from peft import LoraConfig
from peft.utils.transformers_weight_conversion import convert_peft_config_for_transformers

from ft_assets.settings.recipe.training import LoraSettings
from ft_assets.workers.training.variants.text_part import other_parts
from ft_resources.errors import BadRecipe

ALL = "all-linear"
# Linear layers in state-space layers. Some architectures read their weight without calling them.
_READ = ("dt_proj", "out_proj", "x_proj")


def adapter_targets(model: torch.nn.Module, lora: LoraSettings) -> dict[str, Any]:
    """Arguments of ``LoraConfig`` that say which weights are adapted.

    ``all-linear`` means the experts (one tensor per layer in Transformers) and every linear layer except the output
    layer, routers and the layers of ``read_not_called``. Only the text part of a composite is adapted, whatever is
    named. Raises BadRecipe for settings that PEFT does not support on experts: dropout, DoRA and pissa.
    """
    named = lora.target_modules
    targets: dict[str, Any] = {"target_modules": named if isinstance(named, str) else list(named)}
    excluded = _excluded(model) if named == ALL else set()
    if others := other_parts(model):
        targets["exclude_modules"] = _expression(others, excluded)
    elif excluded:
        targets["exclude_modules"] = sorted(excluded)
    if named != ALL:
        return targets
    experts = sorted(_experts(model))
    for name, asked in (("dropout", lora.dropout), ("use_dora", lora.use_dora), ("init", lora.init != "default")):
        if experts and asked:
            raise BadRecipe(
                f"adapters of experts have no {name}",
                where=f"lora.{name}",
                remedy="Leave it out, or name lora.target_modules without the experts.",
            )
    if experts and not _found_by_peft(model):
        targets["target_parameters"] = experts
    return targets


def _expression(parts: Iterable[str], modules: Iterable[str]) -> str:
    """A regular expression for what PEFT leaves out: everything inside ``parts``, and ``modules`` themselves. A list
    would have to name each matrix of a vision tower."""
    inside = "|".join(re.escape(part) for part in parts)
    return "|".join([rf"({inside})(\..+)?", *(re.escape(module) for module in sorted(modules))])


def _excluded(model: torch.nn.Module) -> set[str]:
    found = set()
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and type(module).__name__.endswith("Router"):
            found.add(name)
        elif _is_state_space(module):
            found |= {f"{name}.{child}" for child, _ in module.named_children() if child in _READ}
    return found


def read_not_called(model: torch.nn.Module) -> set[str]:
    """Names of linear layers whose state-space layer uses their weight without calling them, as mamba-ssm's fused
    kernels do on a GPU. An adapter there would not train, and a weight in 4 bits is not a matrix."""
    return {
        f"{name}.{child}" if name else child
        for name, module in model.named_modules()
        if _is_state_space(module)
        for child, _ in module.named_children()
        if child in _READ and f"self.{child}.weight" in inspect.getsource(inspect.unwrap(type(module).forward))
    }


def _is_state_space(module: torch.nn.Module) -> bool:
    # Layers with a gated delta rule have an ``A_log`` too, and call all their projections.
    return hasattr(module, "A_log") and hasattr(module, "D")


def _experts(model: torch.nn.Module) -> set[str]:
    """The last two names of each tensor [experts, …, …], such as ``experts.down_proj``."""
    parts = (name.split(".") for name, parameter in model.named_parameters() if parameter.ndim == 3)
    return {".".join(each[-2:]) for each in parts if "experts" in each[-2]}


def _found_by_peft(model: torch.nn.Module) -> bool:
    """Whether PEFT itself adds the experts of this architecture to all linear layers."""
    tried = LoraConfig(task_type="CAUSAL_LM", target_modules=ALL)
    convert_peft_config_for_transformers(tried, model=model, conversions=None)
    return bool(tried.target_parameters)
