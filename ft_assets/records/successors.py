"""Succession of recipes: a successor is registered when the base of an earlier version moves."""

from ft_assets.records.names import SUCCESSOR
from ft_assets.settings.keys import RecipeKey
from ft_resources.store import Store


def predecessor(store: Store, recipe_key: str) -> str:
    """The recipe whose moved base caused the registration of ``recipe_key``; "" if a person registered it."""
    key = RecipeKey.parse(recipe_key)
    stem = recipe_key.removesuffix(f".v{key.version}")
    for version in range(key.version - 1, 0, -1):
        for entry in store.entries(f"{SUCCESSOR.folder}/{stem}.v{version}"):
            if (store.find_json(entry.path) or {}).get("successor") == recipe_key:
                return f"{stem}.v{version}"
    return ""


def is_successor(store: Store, recipe_key: str) -> bool:
    """Whether the recipe was registered because the base of an earlier version moved."""
    return bool(predecessor(store, recipe_key))
