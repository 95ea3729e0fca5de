"""Held and released bases: what a recipe's successor stands on is new, and serves nobody until it is released.

A successor is a recipe that was registered because its base moved (``names/successor``). Its base is held from then
on, until a create-only record ``names/base_release/<recipe key>.json`` releases it. A base that was never held, of a
recipe that somebody registered himself, counts as released.
"""

from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field

from ft_assets.keys import SHARED, RecipeKey
from ft_assets.notices.due import mark_due
from ft_assets.recipes.register import get_recipe
from ft_resources.canonical import canonical_json
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.records import RESTORE, find_record
from ft_resources.store import Store


class BaseRelease(BaseModel):
    """Who released a recipe's base, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    recipe: str = Field(description="Recipe key.")
    base: str = Field(min_length=64, description="Content digest of the base, as locked.")
    actor: str = Field(min_length=1)
    reason: str = Field(min_length=1)
    at: str = Field(description="UTC, ISO 8601.")


def predecessor(store: Store, recipe_key: str) -> str:
    """The recipe whose base moved, so that ``recipe_key`` was registered; "" where somebody registered it himself."""
    key = RecipeKey.parse(recipe_key)
    stem = recipe_key.removesuffix(f".v{key.version}")
    for version in range(key.version - 1, 0, -1):
        for entry in store.entries(f"names/successor/{stem}.v{version}"):
            if (store.find_json(entry.path) or {}).get("successor") == recipe_key:
                return f"{stem}.v{version}"
    return ""


def is_successor(store: Store, recipe_key: str) -> bool:
    """Whether the recipe was registered because the base of an earlier version moved."""
    return bool(predecessor(store, recipe_key))


def find_release(store: Store, recipe_key: str) -> BaseRelease | None:
    """The release of a recipe's base. Raises CorruptArtifact for a record that cannot be read, or is of another."""
    path = _path(recipe_key)
    release = find_record(store, path, BaseRelease, "the release")
    if release is None:
        return None
    if (release.recipe, release.base) != (recipe_key, get_recipe(store, recipe_key).lock.digest):
        raise CorruptArtifact("the release belongs to another base", where=path, remedy=RESTORE)
    return release


def is_released(store: Store, recipe_key: str) -> bool:
    """Whether what stands on the recipe's base may be served."""
    return not is_successor(store, recipe_key) or find_release(store, recipe_key) is not None


def release_base(store: Store, recipe_key: str, *, actor: str, reason: str) -> BaseRelease:
    """Release the base of a successor; the record of who did it first. Raises UserError where nothing is held."""
    if not is_successor(store, recipe_key):
        raise UserError(
            f"the base of {recipe_key} was never held",
            where=f"recipe key {recipe_key!r}",
            remedy="There is nothing to release.",
        )
    if not reason.strip():
        raise UserError("a release needs a reason", where=recipe_key, remedy="Say why the base may be served.")
    release = BaseRelease(
        recipe=recipe_key,
        base=get_recipe(store, recipe_key).lock.digest,
        actor=actor,
        reason=reason.strip(),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    mark_due(store, "base_release", SHARED, _path(recipe_key))
    if store.create(_path(recipe_key), canonical_json(release.model_dump(mode="json"))):
        return release
    found = find_release(store, recipe_key)
    assert found is not None, f"{_path(recipe_key)} vanished"
    return found


def _path(recipe_key: str) -> str:
    return f"names/base_release/{recipe_key}.json"
