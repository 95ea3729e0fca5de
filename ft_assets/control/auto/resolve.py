"""What can be resolved from a recipe alone, and which of its settings its author wrote."""

from typing import Any

from pydantic import BaseModel

from ft_assets.control.auto.configure import configure, origins_of
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.recipe.training import WITHOUT_EFFECT


def resolve(recipe: Recipe) -> tuple[Recipe, dict[str, str]]:
    """The recipe with every ``auto`` resolved that needs only the recipe, and each setting's origin.

    What depends on data or base stays ``auto``. Origins: dotted field path to ``recipe``, ``default`` or
    ``auto: <why this value>``.
    """
    settled = configure(recipe, None)
    return settled.recipe, settled.origins


def training_settings(recipe: Recipe) -> dict[str, Any]:
    """Settings that decide the trained weights, besides pack and base, as JSON; ``lora`` is null for full."""
    recipe, _ = resolve(recipe)
    settings = {
        "method": recipe.method,
        "variant": recipe.variant,
        "lora": recipe.lora.model_dump(mode="json") if recipe.variant != "full" else None,
        "training": recipe.training.model_dump(mode="json", exclude=WITHOUT_EFFECT),
        "chat_template": recipe.template,
    }
    if recipe.packing.mode != "auto":
        settings["packing"] = recipe.packing.mode
    # Only for methods that use it, so that it never changes the address of a training by another method.
    if section := METHODS[recipe.method].section:
        settings[section] = getattr(recipe, section).model_dump(mode="json")
    return settings


def written_paths(recipe: Recipe) -> list[str]:
    """Dotted paths of the settings that the author wrote, sorted."""
    return sorted(path for path, origin in origins_of(recipe).items() if origin == "recipe")


def with_written(recipe: Recipe, paths: list[str]) -> Recipe:
    """``recipe`` with the author's settings marked again: a stored recipe spells out every default."""
    marked = _marked(recipe, "", set(paths))
    assert isinstance(marked, Recipe)
    return marked


def _marked(model: BaseModel, prefix: str, paths: set[str]) -> BaseModel:
    values: dict[str, Any] = {}
    written = set()
    for name in type(model).model_fields:
        value, path = getattr(model, name), f"{prefix}{name}"
        values[name] = _marked(value, f"{path}.", paths) if isinstance(value, BaseModel) else value
        if path in paths or any(known.startswith(f"{path}.") for known in paths):
            written.add(name)
    return type(model).model_construct(_fields_set=written, **values)
