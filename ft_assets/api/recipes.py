"""Recipes: read what is registered, and retire it."""

from ft_assets.api.defaults import (
    actor_or_user,
    store_or_default,
)
from ft_assets.api.own_keys import own_recipe
from ft_assets.control.auto.resolve import resolve
from ft_assets.control.recipes import stored
from ft_assets.control.recipes.stored import StoredRecipe
from ft_assets.records.names import RECIPE
from ft_assets.records.retired_recipes import Action, RetiredRecipe, record, retired_recipes
from ft_assets.records.trial_only import refuse_trial
from ft_assets.settings.keys import RecipeKey
from ft_assets.settings.recipe.recipe import Recipe
from ft_resources.store import Store


def get_recipe(key: str, *, store: Store | None = None) -> StoredRecipe:
    """The recipe registered as ``key``. Raises UserError, naming the nearest key, if it is not registered."""
    store = store_or_default(store)
    return stored.get_recipe(store, own_recipe(store, key))


def resolved_recipe(key: str, *, store: Store | None = None) -> tuple[Recipe, dict[str, str]]:
    """A registered recipe with every ``auto`` that needs no data, and where each setting comes from, by dotted path:
    ``recipe``, ``default`` or ``auto: <why this value>``. Raises UserError, naming the nearest key, for an unknown one.
    """
    return resolve(get_recipe(key, store=store).recipe)


def next_version(key: str, *, store: Store | None = None) -> str:
    """A recipe's YAML as its author wrote it, under the key of its next version, to edit and register. A chat template
    is stored as text and has to be saved as a file first; a comment says so. Raises UserError for an unknown key."""
    return stored.next_version(get_recipe(key, store=store).recipe)


def has_recipe(key: str, *, store: Store | None = None) -> bool:
    """Whether a recipe is registered as exactly ``key``."""
    return RECIPE.exists(store_or_default(store), key)


def list_recipes(
    *, tenant: str = "", trials: bool = False, retired: bool = False, store: Store | None = None
) -> list[StoredRecipe]:
    """All registered recipes in order of their keys; of ``tenant`` those that it may use. With ``trials`` those of
    sweeps as well, with ``retired`` those that are retired."""
    store = store_or_default(store)
    gone = retired_recipes(store) if not retired else {}
    keys = (key for key in stored.list_recipes(store) if key not in gone)
    usable = (key for key in keys if not tenant or RecipeKey.parse(key).tenant in ("", tenant))
    found = (stored.get_recipe(store, key) for key in usable)
    return [recipe for recipe in found if trials or recipe.trial is None]


def retire_recipe(key: str, *, note: str, store: Store | None = None, actor: str = "") -> tuple[RetiredRecipe, bool]:
    """Offer a recipe no longer: new submissions and sensors leave it alone, and what was made with it stays.

    The record names who and why; the second value is False where it was retired before. Raises UserError for an
    unknown key, and without a note.
    """
    return _record(key, "retire", note=note, store=store, actor=actor)


def restore_recipe(key: str, *, note: str, store: Store | None = None, actor: str = "") -> tuple[RetiredRecipe, bool]:
    """Offer a retired recipe again. Raises UserError for one that never was retired, for an unknown key, and without a
    note; the second value is False where it was taken back before."""
    return _record(key, "restore", note=note, store=store, actor=actor)


def _record(key: str, action: Action, *, note: str, store: Store | None, actor: str) -> tuple[RetiredRecipe, bool]:
    store = store_or_default(store)
    recipe = get_recipe(key, store=store)
    refuse_trial(store, recipe.recipe.key)
    return record(store, recipe.recipe.key, action, actor=actor_or_user(actor), note=note)
