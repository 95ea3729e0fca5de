"""Retired dataset versions: create-only records. A retired key is never reused, since Dagster would consider it
materialized. The same upload becomes a new version."""

from datetime import UTC, datetime
from typing import ClassVar

from pydantic import Field

from ft_assets.records.names import RETIRED_DATASET
from ft_resources.errors import UserError
from ft_resources.records import Record
from ft_resources.store import Store


class Retired(UserError):
    """The dataset version or recipe is retired."""


class RetiredDataset(Record):
    """Why a version is no longer offered."""

    WHAT: ClassVar[str] = "the record of a retired dataset version"

    dataset: str = Field(description="Dataset key.")
    actor: str = Field(min_length=1)
    reason: str = Field(min_length=1)
    at: str = Field(description="UTC, ISO 8601.")


def retire(store: Store, dataset: str, *, actor: str, reason: str) -> None:
    """Record that the version is retired; the first record is final."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    record = RetiredDataset(dataset=dataset, actor=actor, reason=reason, at=at)
    record.create(store, RETIRED_DATASET.path(dataset))


def find_retired(store: Store, dataset: str) -> RetiredDataset | None:
    """The record, None if the version is not retired. Raises CorruptArtifact."""
    return RetiredDataset.find(store, RETIRED_DATASET.path(dataset))


def retired_datasets(store: Store) -> set[str]:
    """The keys of all retired versions."""
    return set(RETIRED_DATASET.keys(store))


def require_not_retired(store: Store, dataset: str) -> None:
    """Raise Retired if the version is retired."""
    found = find_retired(store, dataset)
    if found is not None:
        raise Retired(
            f"{dataset} was retired by {found.actor} on {found.at[:10]} ({found.reason})",
            where=f"dataset {dataset}",
            remedy="Use a later version, or add the data again: it becomes a new version.",
        )
