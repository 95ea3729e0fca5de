"""Successor recipes: when a Hub base moves, a recipe's next version is registered at the new commit."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ft_assets.control.recipes.stored import get_recipe, list_recipes
from ft_assets.control.recipes.window import within_context
from ft_assets.control.registry.chats import needs_base_template
from ft_assets.control.registry.lock_base import config_of
from ft_assets.control.registry.register import register_locked
from ft_assets.records.names import SUCCESSOR
from ft_assets.settings.keys import RecipeKey
from ft_assets.settings.recipe.base_ref import HubRevision
from ft_assets.workers.base_models.context import context_length
from ft_assets.workers.base_models.lock import lock_hub
from ft_resources.errors import UserError
from ft_resources.hub import Hub
from ft_resources.remembered import Remembered
from ft_resources.store import Store

_RECORDS: Remembered[dict[str, Any]] = Remembered()


def current_recipe(store: Store, key: str) -> str:
    """``key`` itself, or the last of its successors."""
    return last_of(successors(store), key)


def successors(store: Store) -> dict[str, str]:
    """The successor of every recipe that has one, from one listing."""
    found: dict[str, str] = {}
    for entry in store.entries(SUCCESSOR.folder):
        record = _RECORDS.get(store, entry.path, partial(store.find_json, entry.path)) or {}
        key, following = entry.path.split("/")[2], str(record.get("successor", ""))
        # A commit has one record, and only recipes without a successor are checked, so there is at most one.
        if following:
            found[key] = min(following, found.get(key, following))
    return found


def last_of(successors: Mapping[str, str], key: str) -> str:
    """``key`` itself, or the last of its successors. Pure."""
    seen = {key}
    while key in successors:
        key = successors[key]
        if key in seen:
            raise UserError(
                f"the successors of {key!r} form a cycle", remedy="Remove the record that closes the cycle."
            )
        seen.add(key)
    return key


def register_successor(store: Store, key: str, hub: Hub, *, actor: str) -> str | None:
    """Register the next version of recipe ``key`` if its base's named revision is at another commit now.

    Returns the new key; None if the base is not a Hub revision, did not move, or moved without a change to any
    relevant file. Raises HubUnavailable, BadBase if the new commit cannot be used, and BadRecipe if it reads
    fewer tokens at once than the recipe packs: then nothing is registered.
    """
    stored = get_recipe(store, key)
    reference = stored.recipe.base_reference
    if not isinstance(reference, HubRevision):
        return None
    commit = hub.snapshot(reference.repo, reference.revision).commit
    record = SUCCESSOR.path(f"{key}/{commit}")
    if commit == stored.lock.revision or store.exists(record):
        return None
    given = not needs_base_template(store, stored.recipe)
    lock = lock_hub(hub, reference.repo, commit, template_given=given)
    successor = ""
    if lock.substance != stored.lock.substance:
        following = stored.recipe.model_copy(update={"key": _next_free(store, stored.recipe.recipe_key)})
        context = context_length(config_of(store, lock, hub=hub))
        following = within_context(following, context, f"{following.key}, base at {commit}")
        successor = register_locked(store, following, lock, actor=actor).key
    store.create_json(record, {"successor": successor, "from": stored.lock.revision, "to": commit, "actor": actor})
    return successor or None


def _next_free(store: Store, key: RecipeKey) -> str:
    """The key with the next unused version number."""
    stem = f"{key.tenant}.{key.name}" if key.tenant else key.name
    taken = set(list_recipes(store))
    version = key.version + 1
    while f"{stem}.v{version}" in taken:
        version += 1
    return f"{stem}.v{version}"
