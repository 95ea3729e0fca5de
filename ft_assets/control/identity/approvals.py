"""Approvals of held versions: create-only records, bound to the bytes and to the reasons they were given for.

A new curation with another result is held again.
"""

from typing import ClassVar

from pydantic import Field

from ft_assets.records.due_notices import mark_due
from ft_assets.settings.keys import DatasetKey
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.canonical import digest
from ft_resources.errors import CorruptArtifact, HeldForReview
from ft_resources.records import Record


class ReviewRecord(Record):
    """One approval."""

    WHAT: ClassVar[str] = "the approval"

    dataset: str = Field(description="Dataset key.")
    digest: str = Field(description="Content digest of the curated version that was reviewed.")
    reasons: list[str] = Field(description="Why it was held.")
    actor: str = Field(description="Who approved it.")
    note: str = Field(description="Why it may be used anyway.")
    at: str = Field(description="UTC, ISO 8601.")


def require_approved(artifacts: Artifacts, artifact: Artifact, dataset_key: str) -> None:
    """Raise HeldForReview unless the curated version ``artifact`` is not held or was approved.

    Raises CorruptArtifact for an approval that is unreadable or belongs to something else.
    """
    held = held_reasons(artifact)
    if held and find_approval(artifacts, artifact, dataset_key) is None:
        raise HeldForReview(dataset_key, held)


def note_held(artifacts: Artifacts, artifact: Artifact, dataset_key: str) -> HeldForReview | None:
    """Announce that the curated version waits for review, and return why; None if it does not."""
    try:
        require_approved(artifacts, artifact, dataset_key)
    except HeldForReview as held:
        mark_due(artifacts.store, "held", DatasetKey.parse(dataset_key).tenant, approval_path(artifact, dataset_key))
        return held
    return None


def held_reasons(artifact: Artifact) -> list[str]:
    return list(artifact.facts["held"])


def approval_path(artifact: Artifact, dataset_key: str) -> str:
    """Path of the approval for these bytes and reasons.

    The bytes alone are not enough: the same rows may be held for more reasons when compared with more test suites.
    """
    subject = digest({"digest": artifact.digest, "reasons": held_reasons(artifact)})
    return f"{DatasetKey.parse(dataset_key).tenant}/reviews/{dataset_key}/{subject}.json"


def find_approval(artifacts: Artifacts, artifact: Artifact, dataset_key: str) -> ReviewRecord | None:
    path = approval_path(artifact, dataset_key)
    remedy = "Restore the object from the bucket's versions, or remove it and approve the version again."
    record = ReviewRecord.find(artifacts.store, path, remedy)
    if record is None:
        return None
    if (record.dataset, record.digest, record.reasons) != (dataset_key, artifact.digest, held_reasons(artifact)):
        raise CorruptArtifact("the approval belongs to another version", where=path, remedy=remedy)
    return record
