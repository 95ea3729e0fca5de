"""Retired dataset versions: create-only records. A retired key is never used again, as Dagster would take a key that
comes back for one that was materialized; the same upload is a new version."""

from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field

from ft_resources.canonical import canonical_json
from ft_resources.errors import UserError
from ft_resources.records import find_record
from ft_resources.store import Store

FOLDER = "names/retired_dataset"


class Retired(UserError):
    """A dataset version is not offered any more."""


class RetiredDataset(BaseModel):
    """Why a version is not offered any more."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    dataset: str = Field(description="Dataset key.")
    actor: str = Field(min_length=1)
    reason: str = Field(min_length=1)
    at: str = Field(description="UTC, ISO 8601.")


def retire(store: Store, dataset: str, *, actor: str, reason: str) -> None:
    """Record that the version is retired; the first record stands."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    record = RetiredDataset(dataset=dataset, actor=actor, reason=reason, at=at)
    store.create(f"{FOLDER}/{dataset}.json", canonical_json(record.model_dump(mode="json")))


def find_retired(store: Store, dataset: str) -> RetiredDataset | None:
    """The record, None where the version is not retired. Raises CorruptArtifact."""
    return find_record(store, f"{FOLDER}/{dataset}.json", RetiredDataset, "the record of a retired dataset version")


def retired_datasets(store: Store) -> set[str]:
    """The keys of all retired versions."""
    return {name.removesuffix(".json") for name in store.names(FOLDER)}


def require_not_retired(store: Store, dataset: str) -> None:
    """Raise Retired where the version is."""
    found = find_retired(store, dataset)
    if found is not None:
        raise Retired(
            f"{dataset} was retired by {found.actor} on {found.at[:10]} ({found.reason})",
            where=f"dataset {dataset}",
            remedy="Use a later version, or add the data again: it becomes a new version.",
        )
