"""Recipes: register a YAML file, and read what is registered."""

from pathlib import Path

from ft_assets.api.defaults import (
    Orchestrator,
    actor_or_user,
    orchestrator_or_default,
    store_or_default,
    tenants_or_default,
)
from ft_assets.control.auto.resolve import resolve
from ft_assets.control.recipes import stored
from ft_assets.control.recipes.stored import StoredRecipe
from ft_assets.control.registry import register
from ft_assets.control.registry.register import RegisteredRecipe
from ft_assets.control.sweeps.trial_retirement import is_retired
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.tenants import TenantsFile
from ft_resources.store import Store


def register_recipe(
    file: Path | str,
    *,
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    actor: str = "",
    orchestrator: Orchestrator | None = None,
) -> RegisteredRecipe:
    """Register a recipe's YAML file, and lock the revision and content of its base model.

    Registering the same again changes nothing; ``created`` is False then. Raises BadRecipe with every wrong field,
    also where the key is taken by other content; BadBase, HubUnavailable, StoreUnavailable. Nothing is written then.
    """
    store, shown = store_or_default(store, create=True), orchestrator_or_default(orchestrator)
    registered = register.register_recipe(
        store, Path(file), actor=actor_or_user(actor), tenants=tenants_or_default(tenants)
    )
    trials = () if is_retired(store, registered.key) else registered.trials
    for key in (registered.key, *trials):
        shown.show_keys(recipe=key)
    return registered


def get_recipe(key: str, *, store: Store | None = None) -> StoredRecipe:
    """The recipe registered as ``key``. Raises UserError, naming the nearest key, if it is not registered."""
    return stored.get_recipe(store_or_default(store), key)


def resolved_recipe(key: str, *, store: Store | None = None) -> tuple[Recipe, dict[str, str]]:
    """A registered recipe with every ``auto`` that needs no data, and where each setting comes from, by dotted path:
    ``recipe``, ``default`` or ``auto: <why this value>``. Raises UserError, naming the nearest key, for an unknown one.
    """
    return resolve(get_recipe(key, store=store).recipe)


def list_recipes(*, trials: bool = False, store: Store | None = None) -> list[StoredRecipe]:
    """All registered recipes in order of their keys; with ``trials`` those of sweeps as well."""
    store = store_or_default(store)
    found = (stored.get_recipe(store, key) for key in stored.list_recipes(store))
    return [recipe for recipe in found if trials or recipe.trial is None]
