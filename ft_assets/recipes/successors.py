"""When a Hub base moves, a recipe stays what it was and gets a successor: its next version, at the new commit."""

from ft_assets.base_models.lock import lock_hub
from ft_assets.keys import RecipeKey
from ft_assets.recipes.base_ref import HubRevision
from ft_assets.recipes.register import get_recipe, list_recipes, register_locked
from ft_resources.errors import UserError
from ft_resources.hub import Hub
from ft_resources.store import Store


def current_recipe(store: Store, key: str) -> str:
    """``key`` itself, or the last of its successors."""
    seen = {key}
    while True:
        following = [
            record["successor"]
            for entry in store.entries(f"names/successor/{key}")
            if (record := store.find_json(entry.path)) and record["successor"]
        ]
        if not following:
            return key
        # One commit has one record, and only a recipe without a successor is looked at, so there is at most one.
        key = min(following)
        if key in seen:
            raise UserError(f"the successors of {key!r} run in a circle", remedy="Remove the record that closes it.")
        seen.add(key)


def register_successor(store: Store, key: str, hub: Hub, *, actor: str) -> str | None:
    """Register the next version of recipe ``key`` if its base's named revision is at another commit now.

    Returns the new key; None where the base is no Hub revision, did not move, or moved without a change to any file
    that counts. Raises HubUnavailable, and BadBase where the new commit cannot be used: then nothing is registered.
    """
    stored = get_recipe(store, key)
    reference = stored.recipe.base_reference
    if not isinstance(reference, HubRevision):
        return None
    commit = hub.snapshot(reference.repo, reference.revision).commit
    record = f"names/successor/{key}/{commit}.json"
    if commit == stored.lock.revision or store.exists(record):
        return None
    given = stored.recipe.chat_template is not None
    lock = lock_hub(hub, reference.repo, commit, template_given=given)
    successor = ""
    if lock.substance != stored.lock.substance:
        following = stored.recipe.model_copy(update={"key": _next_free(store, stored.recipe.recipe_key)})
        successor = register_locked(store, following, lock, actor=actor).key
    store.create_json(record, {"successor": successor, "from": stored.lock.revision, "to": commit, "actor": actor})
    return successor or None


def _next_free(store: Store, key: RecipeKey) -> str:
    """The key with the next version number that nobody uses."""
    stem = f"{key.tenant}.{key.name}" if key.tenant else key.name
    taken = set(list_recipes(store))
    version = key.version + 1
    while f"{stem}.v{version}" in taken:
        version += 1
    return f"{stem}.v{version}"
