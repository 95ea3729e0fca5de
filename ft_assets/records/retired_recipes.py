"""Retired recipes: no longer offered and refused for new submissions; what was made with them stays.

``names/retired_recipe/<key>/<seq>.json`` is a short log of create-only records; the last one counts, so a recipe can be
taken back.
"""

from datetime import UTC, datetime
from typing import ClassVar, Literal

from pydantic import Field

from ft_assets.records.chained_log import ChainedLog, SealedRecord
from ft_assets.records.names import RETIRED_RECIPE
from ft_assets.records.retired_datasets import Retired
from ft_resources.canonical import sha256_bytes
from ft_resources.errors import UserError
from ft_resources.store import Store

Action = Literal["retire", "restore"]


class RetiredRecipe(SealedRecord):
    """Why a recipe is no longer offered, or is offered again."""

    WHAT: ClassVar[str] = "the record of a retired recipe"

    recipe: str = Field(description="Recipe key.")
    action: Action
    actor: str = Field(min_length=1)
    note: str = Field(min_length=1)
    at: str = Field(description="UTC, ISO 8601.")

    @property
    def path(self) -> str:
        return f"{_folder(self.recipe)}/{self.seq:06d}.json"


def record(store: Store, recipe: str, action: Action, *, actor: str, note: str) -> tuple[RetiredRecipe, bool]:
    """Retire a recipe, or restore it. Returns the record in force, and False if it was in force before.

    Raises UserError without a note, and for taking back a recipe that is not retired.
    """
    where = f"recipe {recipe}"
    if not note.strip():
        raise UserError(f"to {action} a recipe needs a note", where=where, remedy="Give a reason; it is recorded.")
    last = _last(store, recipe)
    if last is not None and last.action == action:
        return last, False
    if last is None and action == "restore":
        raise UserError("it is not retired", where=where, remedy="List retired recipes: ft recipe list --retired")
    made = RetiredRecipe(
        recipe=recipe,
        action=action,
        actor=actor,
        note=note.strip(),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        seq=last.seq + 1 if last else 1,
        previous=sha256_bytes(last.data()) if last else "",
    )
    winner = _log(store, recipe).append(made)
    return winner, winner is made


def find_retired_recipe(store: Store, recipe: str) -> RetiredRecipe | None:
    """The record, None if the recipe is not retired. Raises CorruptArtifact for a damaged log."""
    last = _last(store, recipe)
    return last if last is not None and last.action == "retire" else None


def retired_recipes(store: Store) -> dict[str, RetiredRecipe]:
    """The records of all retired recipes by key."""
    found = ((key, find_retired_recipe(store, key)) for key in store.folders(RETIRED_RECIPE.folder))
    return {key: record for key, record in found if record is not None}


def require_recipe_not_retired(store: Store, recipe: str) -> None:
    """Raise Retired if the recipe is retired."""
    found = find_retired_recipe(store, recipe)
    if found is not None:
        raise Retired(
            f"{recipe} was retired by {found.actor} on {found.at[:10]} ({found.note})",
            where=f"recipe {recipe}",
            remedy=f"Use another recipe (ft recipe list), or take it back: ft recipe restore {recipe} --note WHY",
        )


def _last(store: Store, recipe: str) -> RetiredRecipe | None:
    records, _ = _log(store, recipe).read()
    return records[-1] if records else None


def _log(store: Store, recipe: str) -> ChainedLog[RetiredRecipe]:
    return ChainedLog(store=store, folder=_folder(recipe), kind=RetiredRecipe)


def _folder(recipe: str) -> str:
    return f"{RETIRED_RECIPE.folder}/{recipe}"
