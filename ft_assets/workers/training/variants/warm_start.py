"""Adapters that begin with the weights of an earlier adapter."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load_file

from ft_resources.errors import BadRecipe

WEIGHTS = "adapter_model.safetensors"


def start_from(model: Any, folder: Path) -> None:
    """Set all adapters of ``model`` to those in the PEFT folder ``folder``.

    Raises BadRecipe unless both have tensors of the same names and shapes: a tensor that stayed new would be trained
    silently.
    """
    earlier, new = load_file(folder / WEIGHTS), _adapters(model)
    if problem := _difference(earlier, new):
        raise BadRecipe(
            f"the adapter to continue does not match this recipe's adapter settings: {problem}",
            where="training.warm_start",
            remedy="Write the lora settings that it was trained with, or base: artifact:… in place of warm_start.",
        )
    set_peft_model_state_dict(model, earlier)
    for name, value in _adapters(model).items():
        assert torch.equal(value.float().cpu(), earlier[name].float()), f"{name} was not set"


def _adapters(model: Any) -> dict[str, torch.Tensor]:
    return get_peft_model_state_dict(model, save_embedding_layers=False)


def _difference(earlier: dict[str, torch.Tensor], new: dict[str, torch.Tensor]) -> str:
    """The first difference in names or shapes; "" for none."""
    for said, names in (("this recipe has no", earlier.keys() - new.keys()), ("it lacks", new.keys() - earlier.keys())):
        if names:
            return f"{said} {min(names)}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
    for name in sorted(new):
        if earlier[name].shape != new[name].shape:
            return f"{name} is {list(earlier[name].shape)}, and {list(new[name].shape)} is wanted"
    return ""
