"""Which pairs are carried: old weights on a moved base, until somebody asks for a training of the pair.

Two create-only records of a pair decide, whoever looks: ``carry.json`` names the weights, ``training.json`` says that
a training was asked for, and ends the carry for good. So the pair has one checkpoint at any time.
"""

from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ft_assets.base_models.release import is_successor
from ft_assets.keys import DatasetKey, RecipeKey
from ft_resources.artifacts import Address, InputRef
from ft_resources.canonical import canonical_json
from ft_resources.errors import CorruptArtifact
from ft_resources.store import Store


class Carry(BaseModel):
    """The weights that a pair of dataset version and successor recipe has without a training of its own."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    dataset: str = Field(description="Dataset key.")
    recipe: str = Field(description="Key of the successor.")
    adapter: InputRef = Field(description="The adapter that was accepted on the base before.")
    checkpoint: InputRef = Field(description="Its checkpoint, whose weights are taken.")
    actor: str = Field(min_length=1)
    at: str = Field(description="UTC, ISO 8601.")


def record_carry(store: Store, carry: Carry) -> None:
    """Record that the pair is carried; the first record of a pair stands."""
    store.create(carry_path(carry.dataset, carry.recipe), canonical_json(carry.model_dump(mode="json")))


def find_carry(store: Store, dataset: str, recipe: str) -> Carry | None:
    """What the pair is carried from; None where it is trained. Raises CorruptArtifact for a record that means nothing,
    or that leads to another tenant."""
    if RecipeKey.parse(recipe).version == 1:
        # A first version succeeds nothing, and this is asked with every walk.
        return None
    path = carry_path(dataset, recipe)
    raw = store.find_json(path)
    if raw is None or store.exists(training_path(dataset, recipe)):
        return None
    try:
        carry = Carry.model_validate(raw)
        source = Address.parse(carry.checkpoint.address)
        if (carry.dataset, carry.recipe) != (dataset, recipe) or source.asset != "checkpoint":
            raise ValueError("the record belongs to another pair")
        if source.tenant != DatasetKey.parse(dataset).tenant:
            raise ValueError("the record leads to another tenant")
    except (ValidationError, ValueError) as error:
        remedy = "Restore the object from the bucket's versions or a backup."
        raise CorruptArtifact("what the pair is carried from cannot be read", where=path, remedy=remedy) from error
    return carry


def note_training(store: Store, dataset: str, recipe: str, *, submission: str, actor: str) -> None:
    """A training of the pair was asked for: from now on it is not carried. Only pairs of successors can be."""
    if RecipeKey.parse(recipe).version == 1 or not is_successor(store, recipe):
        return
    at = datetime.now(UTC).isoformat(timespec="seconds")
    store.create_json(training_path(dataset, recipe), {"submission": submission, "actor": actor, "at": at})


def noted_training(store: Store, dataset: str, recipe: str) -> str:
    """The id of the submission that asked first for a training of a successor's pair; "" where nobody did."""
    raw = store.find_json(training_path(dataset, recipe))
    return str(raw["submission"]) if raw else ""


def carry_path(dataset: str, recipe: str) -> str:
    """Where it is recorded what a pair is carried from."""
    return f"{DatasetKey.parse(dataset).tenant}/carries/{dataset}/{recipe}/carry.json"


def training_path(dataset: str, recipe: str) -> str:
    """Where it is recorded that a training of a pair was asked for."""
    return f"{DatasetKey.parse(dataset).tenant}/carries/{dataset}/{recipe}/training.json"
