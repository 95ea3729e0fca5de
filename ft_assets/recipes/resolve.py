"""What a recipe settles by itself, and which of its settings its author wrote."""

from typing import Any

from pydantic import BaseModel

from ft_assets.checkpoints.configuration.configure import configure, origins_of
from ft_assets.recipes.models import Recipe


def resolve(recipe: Recipe) -> tuple[Recipe, dict[str, str]]:
    """See ``Recipe.resolved``: what needs a dataset or a base stays ``auto``."""
    settled = configure(recipe, None)
    return settled.recipe, settled.origins


def written_paths(recipe: Recipe) -> list[str]:
    """Dotted paths of the settings that the author wrote, sorted."""
    return sorted(path for path, origin in origins_of(recipe).items() if origin == "recipe")


def with_written(recipe: Recipe, paths: list[str]) -> Recipe:
    """``recipe`` that again knows which settings its author wrote: a stored recipe holds every default spelt out."""
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
