"""The quarantine: a create-only record of each rejected candidate, below its tenant's prefix.

``<tenant>/rejections/<fingerprint of the adapter that was refused>/<digest of the verdicts>.json``. The candidate's
checkpoint and report stay where they are; nothing serves what has no adapter. The same candidate judged again by the
same words keeps its first record; a waiver or tighter gates make another one. Notices and the UI read
``RejectionRecord.suggestions``, as sentences; the end record of a submission repeats them (``SubmissionOutcome``).
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ft_assets.evals.gates import passed
from ft_assets.evals.verdict import Verdict
from ft_assets.rejections.candidate import suggestions_for
from ft_assets.rejections.suggest import Suggestion
from ft_resources.artifacts import Artifacts, InputRef
from ft_resources.canonical import canonical_json, digest
from ft_resources.records import find_record
from ft_resources.store import Store
from ft_resources.work import WorkRequest

FOLDER = "rejections"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class SuggestionRecord(_Record):
    """A suggestion as it was made."""

    what: str
    why: str
    change: dict[str, Any] = Field(description="New values by recipe path.")


class RejectionRecord(_Record):
    """One rejected candidate: which gates stood in the way, with their words and numbers, and what to try."""

    version: int = 1
    dataset: str
    recipe: str
    line: str
    checkpoint: InputRef
    eval_report: InputRef
    gates: dict[str, Any] = Field(description="The gates' settings, as JSON.")
    verdicts: tuple[Verdict, ...] = Field(description="Of every gate, also of those that passed.")
    tried_next: tuple[SuggestionRecord, ...] = Field(description="What to try, the best supported first.")
    suggestions: tuple[str, ...] = Field(description="The same as sentences, without any text of rows.")
    actor: str
    at: str = Field(description="UTC, ISO 8601.")


def quarantine(
    artifacts: Artifacts, request: WorkRequest, verdicts: Sequence[Verdict], *, actor: str
) -> RejectionRecord | None:
    """The record of the candidate that ``request`` would make an adapter of, written unless it is there; None where
    every gate lets it through."""
    if passed(verdicts):
        return None
    path = record_path(request, verdicts)
    found = _read(artifacts.store, path)
    if found is not None:
        return found
    tried = suggestions_for(artifacts, request, verdicts)
    record = RejectionRecord(
        dataset=request.params["dataset"],
        recipe=request.params["recipe"],
        line=request.params["line"],
        checkpoint=request.inputs["checkpoint"],
        eval_report=request.inputs["eval_report"],
        gates=request.params["gates"],
        verdicts=tuple(verdicts),
        tried_next=tuple(SuggestionRecord(what=s.what, why=s.why, change=dict(s.change)) for s in tried),
        suggestions=sentences(tried),
        actor=actor,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    if artifacts.store.create(path, canonical_json(record.model_dump(mode="json"))):
        return record
    return _read(artifacts.store, path) or record


def find_rejection(store: Store, request: WorkRequest, verdicts: Sequence[Verdict]) -> RejectionRecord | None:
    """The record of this candidate with these verdicts. Raises CorruptArtifact for one that cannot be read."""
    return _read(store, record_path(request, verdicts))


def sentences(tried: Sequence[Suggestion]) -> tuple[str, ...]:
    return tuple(each.sentence() for each in tried)


def record_path(request: WorkRequest, verdicts: Sequence[Verdict]) -> str:
    address = request.address
    words = digest([verdict.model_dump(mode="json") for verdict in verdicts])
    return f"{address.tenant}/{FOLDER}/{address.fingerprint}/{words}.json"


def _read(store: Store, path: str) -> RejectionRecord | None:
    return find_record(store, path, RejectionRecord, "the record of a rejection")
