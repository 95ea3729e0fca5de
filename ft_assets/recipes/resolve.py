"""Replacing ``auto`` by values, by rules that look at nothing but the recipe, so that its meaning never moves."""

from typing import Any

from pydantic import BaseModel

from ft_assets.recipes.models import Recipe

RATES = {"lora": 2e-4, "full": 2e-5}


def resolve(recipe: Recipe) -> tuple[Recipe, dict[str, str]]:
    """The recipe without any ``auto``, and the origin of each setting by its dotted path (see Recipe.resolved)."""
    origins = dict(_origins(recipe, ""))
    lora, training, hardware = recipe.lora, recipe.training, recipe.hardware
    if lora.alpha == "auto":
        lora = lora.model_copy(update={"alpha": 2 * lora.rank})
        origins["lora.alpha"] = f"auto: twice the rank of {lora.rank}"
    if hardware.device == "auto":
        device = "cuda" if hardware.gpus else "cpu"
        hardware = hardware.model_copy(update={"device": device})
        origins["hardware.device"] = f"auto: {device} for {hardware.gpus} GPUs"
    if training.learning_rate == "auto":
        training = training.model_copy(update={"learning_rate": RATES[recipe.variant]})
        origins["training.learning_rate"] = f"auto: usual for {recipe.variant}"
    if training.precision == "auto":
        precision = "bf16" if hardware.device == "cuda" else "fp32"
        training = training.model_copy(update={"precision": precision})
        origins["training.precision"] = f"auto: {precision} on {hardware.device}"
    settled = {"lora": lora, "training": training, "hardware": hardware}
    return recipe.model_copy(update=settled), origins


def written_paths(recipe: Recipe) -> list[str]:
    """Dotted paths of the settings that the author wrote, sorted."""
    return sorted(path for path, origin in _origins(recipe, "") if origin == "recipe")


def with_written(recipe: Recipe, paths: list[str]) -> Recipe:
    """``recipe`` that again knows which settings its author wrote: a stored recipe holds every default spelt out."""
    marked = _marked(recipe, "", set(paths))
    assert isinstance(marked, Recipe)
    return marked


def _origins(model: BaseModel, prefix: str) -> list[tuple[str, str]]:
    found = []
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            found += _origins(value, f"{prefix}{name}.")
        else:
            found.append((f"{prefix}{name}", "recipe" if name in model.model_fields_set else "default"))
    return found


def _marked(model: BaseModel, prefix: str, paths: set[str]) -> BaseModel:
    values: dict[str, Any] = {}
    written = set()
    for name in type(model).model_fields:
        value, path = getattr(model, name), f"{prefix}{name}"
        values[name] = _marked(value, f"{path}.", paths) if isinstance(value, BaseModel) else value
        if path in paths or any(known.startswith(f"{path}.") for known in paths):
            written.add(name)
    return type(model).model_construct(_fields_set=written, **values)
