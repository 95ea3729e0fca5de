"""Held and released bases: a successor's new base is not served until it is released.

A successor is a recipe that was registered because its base moved (``names/successor``). Its base is held until the
create-only record ``names/base_release/<recipe key>.json`` releases it. The base of a recipe that a person registered
is never held and counts as released.
"""

from datetime import UTC, datetime
from typing import ClassVar

from pydantic import Field

from ft_assets.control.recipes.stored import get_recipe
from ft_assets.records.due_notices import mark_due
from ft_assets.records.names import BASE_RELEASE
from ft_assets.records.successors import is_successor
from ft_assets.settings.keys import SHARED
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.records import RESTORE, Record
from ft_resources.store import Store


class BaseRelease(Record):
    """Who released a recipe's base, and why."""

    WHAT: ClassVar[str] = "the release"

    recipe: str = Field(description="Recipe key.")
    base: str = Field(min_length=64, description="Content digest of the base, as locked.")
    actor: str = Field(min_length=1)
    reason: str = Field(min_length=1)
    at: str = Field(description="UTC, ISO 8601.")


def find_release(store: Store, recipe_key: str) -> BaseRelease | None:
    """The release of a recipe's base. Raises CorruptArtifact for an unreadable record, or another recipe's."""
    path = BASE_RELEASE.path(recipe_key)
    release = BaseRelease.find(store, path)
    if release is None:
        return None
    if (release.recipe, release.base) != (recipe_key, get_recipe(store, recipe_key).lock.digest):
        raise CorruptArtifact("the release belongs to another base", where=path, remedy=RESTORE)
    return release


def is_released(store: Store, recipe_key: str) -> bool:
    """Whether adapters on the recipe's base may be served."""
    return not is_successor(store, recipe_key) or find_release(store, recipe_key) is not None


def release_base(store: Store, recipe_key: str, *, actor: str, reason: str) -> BaseRelease:
    """Release the base of a successor; returns the first release's record. Raises UserError if nothing is held."""
    if not is_successor(store, recipe_key):
        raise UserError(
            f"the base of {recipe_key} was never held",
            where=f"recipe key {recipe_key!r}",
            remedy="It needs no release.",
        )
    if not reason.strip():
        raise UserError(
            "a release needs a reason", where=recipe_key, remedy="Give the reason why the base may be served."
        )
    release = BaseRelease(
        recipe=recipe_key,
        base=get_recipe(store, recipe_key).lock.digest,
        actor=actor,
        reason=reason.strip(),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    mark_due(store, "base_release", SHARED, BASE_RELEASE.path(recipe_key))
    if release.create(store, BASE_RELEASE.path(recipe_key)):
        return release
    found = find_release(store, recipe_key)
    assert found is not None, f"{BASE_RELEASE.path(recipe_key)} vanished"
    return found
