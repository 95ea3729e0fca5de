"""Suggestions are made only if their recipe could be registered."""

from collections.abc import Mapping
from typing import Any

from ft_assets.control.auto.combinations import require_possible
from ft_assets.control.auto.resolve import resolve
from ft_assets.control.recipes.window import within_context
from ft_assets.settings.recipe.recipe import Recipe
from ft_resources.canonical import canonical_json
from ft_resources.errors import BadRecipe


def is_registrable(recipe: Recipe, change: Mapping[str, Any], context: int | None) -> bool:
    """Whether ``recipe`` with other values (by dotted path) is valid on a base that reads ``context`` tokens."""
    values = recipe.model_dump(mode="json")
    for path, value in change.items():
        *sections, name = path.split(".")
        section = values
        for each in sections:
            section = section[each]
        section[name] = value
    try:
        changed = Recipe.model_validate_json(canonical_json(values))
        require_possible(resolve(changed)[0], None)
        within_context(changed, context)
    except (BadRecipe, ValueError):
        return False
    return True
