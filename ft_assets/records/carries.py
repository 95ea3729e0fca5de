"""Which pairs are carried: they use old weights on a moved base until a training of the pair is requested.

Two create-only records of a pair decide: ``carry.json`` names the weights; ``training.json`` says that a training was
requested, and ends the carry for good. So the pair has exactly one checkpoint at any time.
"""

from datetime import UTC, datetime
from typing import ClassVar

from pydantic import Field

from ft_assets.records.successors import is_successor
from ft_assets.settings.keys import DatasetKey, RecipeKey
from ft_resources.artifacts import Address, InputRef
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.records import RESTORE, Record
from ft_resources.store import Store


class Carry(Record):
    """The weights that a pair of dataset version and successor recipe uses without a training of its own."""

    WHAT: ClassVar[str] = "what the pair is carried from"

    dataset: str = Field(description="Dataset key.")
    recipe: str = Field(description="Key of the successor.")
    adapter: InputRef = Field(description="The adapter that was accepted on the base before.")
    checkpoint: InputRef = Field(description="Its checkpoint, whose weights are taken.")
    actor: str = Field(min_length=1)
    at: str = Field(description="UTC, ISO 8601.")


def record_carry(store: Store, carry: Carry) -> None:
    """Record that the pair is carried; the pair's first record is final."""
    carry.create(store, carry_path(carry.dataset, carry.recipe))


def find_carry(store: Store, dataset: str, recipe: str) -> Carry | None:
    """The record of what the pair is carried from; None if it is trained. Raises CorruptArtifact for an invalid record,
    or for one that references another tenant."""
    if RecipeKey.parse(recipe).version == 1:
        # A first version succeeds nothing, and every resolution calls this.
        return None
    path = carry_path(dataset, recipe)
    carry = Carry.find(store, path)
    if carry is None or store.exists(training_path(dataset, recipe)):
        return None
    try:
        source = Address.parse(carry.checkpoint.address)
        if (carry.dataset, carry.recipe) != (dataset, recipe) or source.asset != "checkpoint":
            raise ValueError("the record belongs to another pair")
        if source.tenant != DatasetKey.parse(dataset).tenant:
            raise ValueError("the record leads to another tenant")
    except (UserError, ValueError) as error:
        raise CorruptArtifact("what the pair is carried from cannot be read", where=path, remedy=RESTORE) from error
    return carry


def note_training(store: Store, dataset: str, recipe: str, *, submission: str, actor: str) -> None:
    """Record that a training of the pair was requested: it is no longer carried. Only successors' pairs can be."""
    if RecipeKey.parse(recipe).version == 1 or not is_successor(store, recipe):
        return
    at = datetime.now(UTC).isoformat(timespec="seconds")
    store.create_json(training_path(dataset, recipe), {"submission": submission, "actor": actor, "at": at})


def noted_training(store: Store, dataset: str, recipe: str) -> str:
    """Id of the first submission that requested a training of a successor's pair; "" if none did."""
    raw = store.find_json(training_path(dataset, recipe))
    return str(raw["submission"]) if raw else ""


def carry_path(dataset: str, recipe: str) -> str:
    """Path of the record of what a pair is carried from."""
    return f"{DatasetKey.parse(dataset).tenant}/carries/{dataset}/{recipe}/carry.json"


def training_path(dataset: str, recipe: str) -> str:
    """Path of the record that a training of a pair was requested."""
    return f"{DatasetKey.parse(dataset).tenant}/carries/{dataset}/{recipe}/training.json"
