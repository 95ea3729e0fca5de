"""Approval of held dataset versions: by whom, why, and for which bytes and reasons.

Curation holds a version that a person must review. The approval is a create-only record, bound to the bytes and to the
reasons for holding: a new curation with another result is held again.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from ft_assets.control.identity.approvals import ReviewRecord, approval_path, find_approval, held_reasons
from ft_assets.control.identity.datasets import dataset
from ft_resources.artifacts import Artifacts
from ft_resources.errors import UserError

State = Literal["accepted", "held", "approved"]


@dataclass(frozen=True, kw_only=True)
class Review:
    """Review state of a curated version: the curation's ``reasons`` for holding, and the approval ``record``."""

    state: State
    reasons: tuple[str, ...] = ()
    record: ReviewRecord | None = None


def approve(artifacts: Artifacts, dataset_key: str, *, actor: str, note: str) -> ReviewRecord:
    """Approve a held version; returns the first approval if there is one already.

    Raises UserError if there is no such version, it is not curated or not held, or ``note`` is empty.
    """
    artifact = dataset(artifacts, dataset_key)
    held = held_reasons(artifact)
    if not held:
        raise UserError(
            f"{dataset_key} is not held: it was accepted",
            where=f"dataset {dataset_key}",
            remedy="It needs no approval.",
        )
    if not note.strip():
        raise UserError(
            "an approval needs a note",
            where=f"dataset {dataset_key}",
            remedy="Give the reason why the version may be used anyway.",
        )
    record = ReviewRecord(
        dataset=dataset_key,
        digest=artifact.digest,
        reasons=held,
        actor=actor,
        note=note.strip(),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    path = approval_path(artifact, dataset_key)
    if record.create(artifacts.store, path):
        return record
    # An earlier or concurrent approval won; it must be as valid as ours.
    found = find_approval(artifacts, artifact, dataset_key)
    assert found is not None, f"{path} vanished"
    return found


def review_of(artifacts: Artifacts, dataset_key: str) -> Review:
    """The version's review state for today's curation. Raises UserError if it does not exist or is not curated."""
    artifact = dataset(artifacts, dataset_key)
    held = tuple(held_reasons(artifact))
    if not held:
        return Review(state="accepted")
    record = find_approval(artifacts, artifact, dataset_key)
    return Review(state="approved" if record else "held", reasons=held, record=record)
