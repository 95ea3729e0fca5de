"""Held versions: who let one through, for which bytes and reasons, and why.

Curation holds a version that a person must look at first. The approval is a create-only record, bound to the bytes
and to the reasons it was given for: what is curated anew with another result is held again.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ft_assets.keys import DatasetKey
from ft_assets.notices.due import mark_due
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.canonical import canonical_json, digest
from ft_resources.errors import CorruptArtifact, HeldForReview, UserError
from ft_resources.records import find_record

State = Literal["accepted", "held", "approved"]


class ReviewRecord(BaseModel):
    """One approval."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    dataset: str = Field(description="Dataset key.")
    digest: str = Field(description="Content digest of the curated version that was looked at.")
    reasons: list[str] = Field(description="Why it was held.")
    actor: str = Field(description="Who approved it.")
    note: str = Field(description="Why it may be used all the same.")
    at: str = Field(description="UTC, ISO 8601.")


@dataclass(frozen=True, kw_only=True)
class Review:
    """How a curated version stands; ``reasons`` are those of the curation, ``record`` is that of the approval."""

    state: State
    reasons: tuple[str, ...] = ()
    record: ReviewRecord | None = None


def approve(artifacts: Artifacts, dataset_key: str, *, actor: str, note: str) -> ReviewRecord:
    """Let a held version through; the record of who did it first, where somebody did.

    Raises UserError where there is no such version, where it is not curated yet, where it is not held, and where
    ``note`` says nothing.
    """
    artifact = _curated(artifacts, dataset_key)
    held = _held(artifact)
    if not held:
        raise UserError(
            f"{dataset_key} is not held: it was accepted as it is",
            where=f"dataset {dataset_key}",
            remedy="There is nothing to approve; use it.",
        )
    if not note.strip():
        raise UserError(
            "an approval needs a note",
            where=f"dataset {dataset_key}",
            remedy="Say why the version may be used all the same.",
        )
    record = ReviewRecord(
        dataset=dataset_key,
        digest=artifact.digest,
        reasons=held,
        actor=actor,
        note=note.strip(),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    path = _path(artifact, dataset_key)
    if artifacts.store.create(path, canonical_json(record.model_dump(mode="json"))):
        return record
    # Not ours: an approval by somebody else, or earlier. It must hold as well as ours would.
    found = _find_record(artifacts, artifact, dataset_key)
    assert found is not None, f"{path} vanished"
    return found


def review_of(artifacts: Artifacts, dataset_key: str) -> Review:
    """How the version stands, as it is curated today. Raises UserError where there is none, or it is not curated."""
    artifact = _curated(artifacts, dataset_key)
    held = tuple(_held(artifact))
    if not held:
        return Review(state="accepted")
    record = _find_record(artifacts, artifact, dataset_key)
    return Review(state="approved" if record else "held", reasons=held, record=record)


def require_approved(artifacts: Artifacts, artifact: Artifact, dataset_key: str) -> None:
    """Raise HeldForReview unless the curated version ``artifact`` may be used: it is not held, or it was approved.

    Raises CorruptArtifact for an approval that cannot be read, or that belongs to something else.
    """
    held = _held(artifact)
    if held and _find_record(artifacts, artifact, dataset_key) is None:
        raise HeldForReview(dataset_key, held)


def note_held(artifacts: Artifacts, artifact: Artifact, dataset_key: str) -> None:
    """Let whoever is to be told know that the curated version waits for a person; nothing where it does not."""
    if _held(artifact) and _find_record(artifacts, artifact, dataset_key) is None:
        mark_due(artifacts.store, "held", DatasetKey.parse(dataset_key).tenant, _path(artifact, dataset_key))


def _held(artifact: Artifact) -> list[str]:
    return list(artifact.facts["held"])


def _path(artifact: Artifact, dataset_key: str) -> str:
    """Where the approval of these bytes, held for these reasons, lies.

    The bytes alone would not do: the same rows may be held for more reasons when they are compared with more tests.
    """
    subject = digest({"digest": artifact.digest, "reasons": _held(artifact)})
    return f"{DatasetKey.parse(dataset_key).tenant}/reviews/{dataset_key}/{subject}.json"


def _find_record(artifacts: Artifacts, artifact: Artifact, dataset_key: str) -> ReviewRecord | None:
    path = _path(artifact, dataset_key)
    remedy = "Restore the object from the bucket's versions, or remove it and approve the version again."
    record = find_record(artifacts.store, path, ReviewRecord, "the approval", remedy)
    if record is None:
        return None
    if (record.dataset, record.digest, record.reasons) != (dataset_key, artifact.digest, _held(artifact)):
        raise CorruptArtifact("the approval belongs to another version", where=path, remedy=remedy)
    return record


def _curated(artifacts: Artifacts, dataset_key: str) -> Artifact:
    # Imported here: identity asks this module whether a version may be used.
    from ft_assets import identity

    return identity.dataset(artifacts, dataset_key)
