"""Registered recipes in the store: the recipe, its digest, and the lock of its base."""

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import yaml

from ft_assets.control.auto.resolve import resolve, with_written
from ft_assets.control.recipes.trials import Trial, TrialOf
from ft_assets.records.names import RECIPE
from ft_assets.settings.keys import RecipeKey
from ft_assets.settings.recipe.ready_templates import ready_name
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.ungated import NO_GATES
from ft_assets.workers.base_models.base_lock import BaseLock
from ft_resources.canonical import digest
from ft_resources.errors import BadRecipe, CorruptArtifact, UserError
from ft_resources.store import Store
from ft_resources.strict import nearest, parse_strict


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRecipe:
    """A registered recipe: its content, the digest of recipe and base, and the base's lock.

    ``trials`` are those of a sweep, in its order; ``trial`` names the sweep if this recipe is a trial. ``of_model`` is
    the catalogue's model if a job registered the recipe; "" if a person did.
    """

    recipe: Recipe
    digest: str
    lock: BaseLock
    trials: tuple[Trial, ...] = ()
    trial: TrialOf | None = None
    of_model: str = ""


def get_recipe(store: Store, key: str) -> StoredRecipe:
    """The recipe registered as ``key``. Raises UserError, which names the nearest registered key, if there is none."""
    stored = find_recipe(store, str(RecipeKey.parse(key)))
    if stored is None:
        raise UserError(
            f"there is no recipe {key!r}; {nearest(key, list_recipes(store))}",
            where=f"recipe key {key!r}",
            remedy="Use a registered key, or register it with: ft recipe add FILE",
        )
    return stored


def list_recipes(store: Store) -> list[str]:
    """The keys of all registered recipes, sorted."""
    return RECIPE.keys(store)


def find_recipe(store: Store, key: str) -> StoredRecipe | None:
    """The recipe registered as ``key``, or None. Raises CorruptArtifact for an unreadable record."""
    path = RECIPE.path(key)
    try:
        return _parsed(path, store.get(path))
    except FileNotFoundError:
        return None


def get_resolved(store: Store, key: str) -> Recipe:
    """The settings of ``get_recipe``, with every ``auto`` resolved that needs only the recipe. Raises as it does."""
    path = RECIPE.path(str(RecipeKey.parse(key)))
    try:
        return _resolved(path, store.get(path))
    except FileNotFoundError:
        return resolve(get_recipe(store, key).recipe)[0]


@lru_cache(maxsize=1000)
def _resolved(path: str, data: bytes) -> Recipe:
    return resolve(_parsed(path, data).recipe)[0]


# Cached by content, so it always matches the store: a status asks for its recipe thirty times.
@lru_cache(maxsize=1000)
def _parsed(path: str, data: bytes) -> StoredRecipe:
    try:
        record = json.loads(data)
        found = StoredRecipe(
            recipe=with_written(parse_strict(Recipe, record["recipe"], path), _texts(record["written"])),
            digest=record["digest"],
            lock=BaseLock.model_validate(record["lock"]),
            trials=tuple(Trial.model_validate(trial) for trial in record.get("trials", ())),
            trial=TrialOf.model_validate(record["trial"]) if "trial" in record else None,
            of_model=record.get("of_model", ""),
        )
    except (KeyError, TypeError, ValueError, RecursionError, BadRecipe) as error:
        raise _corrupt("cannot be read", path) from error
    extra = {name: record[name] for name in ("trials", "trial") if name in record}
    if record_digest(record["recipe"], record["lock"], extra) != found.digest:
        raise _corrupt("does not match its digest", path)
    return found


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise TypeError("this is no list of texts")
    return value


def _corrupt(what: str, path: str) -> CorruptArtifact:
    remedy = "Restore it from the bucket's versions or a backup."
    return CorruptArtifact(f"the recipe's record {what}", where=path, remedy=remedy)


def record_digest(recipe: dict[str, Any], lock: dict[str, Any], extra: dict[str, Any]) -> str:
    """Digest of recipe and lock as JSON, without the locations of inputs, which do not affect the content."""
    terms = {name: lock[name] for name in lock if name not in ("upload", "parent")}
    return digest({"recipe": recipe, "lock": terms, **extra})


def next_version(recipe: Recipe) -> str:
    """The settings that the author wrote, as YAML under the next version's key."""
    key = recipe.recipe_key
    content = {**recipe.model_dump(mode="json", exclude_unset=True), "key": str(replace(key, version=key.version + 1))}
    remark = ""
    template = content.pop("chat_template", None)
    if template is not None and (name := ready_name(template)):
        content["chat_template"] = name
    elif template is not None:
        remark += "# chat_template: save the template of the version before as a file, and name it here\n"
    if recipe.gates == NO_GATES:
        remark += "# gates: none disables all gates; to have the result judged, set gates and evaluation.suites\n"
    return remark + yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
