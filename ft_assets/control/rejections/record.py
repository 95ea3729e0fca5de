"""The quarantine: a create-only record of each rejected candidate, below its tenant's prefix.

``<tenant>/rejections/<fingerprint of the adapter that was refused>/<digest of the verdicts>.json``. The candidate's
checkpoint and report stay where they are; nothing serves what has no adapter. If the same candidate gets the same
verdicts again, it keeps its first record; a waiver or tighter gates create another one. Notices and the UI read
``RejectionRecord.suggestions``, as sentences; a submission's end record repeats them (``SubmissionOutcome``).
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from pydantic import Field

from ft_assets.control.rejections.candidate import suggestions_for
from ft_assets.control.rejections.suggest import Suggestion
from ft_assets.settings.keys import DatasetKey
from ft_assets.settings.ungated import without_gates
from ft_assets.workers.evals.gates import passed
from ft_assets.workers.evals.verdict import Verdict
from ft_resources.artifacts import Artifacts, InputRef
from ft_resources.canonical import digest
from ft_resources.records import Record
from ft_resources.store import Store
from ft_resources.strict_model import StrictModel
from ft_resources.work import WorkRequest

FOLDER = "rejections"


class SuggestionRecord(StrictModel):
    """A suggestion as recorded."""

    what: str
    why: str
    change: dict[str, Any] = Field(description="New values by recipe path.")


class RejectionRecord(Record):
    """One rejected candidate: the gates that failed, with their messages and numbers, and what to try."""

    WHAT: ClassVar[str] = "the record of a rejection"

    version: int = 1
    dataset: str
    recipe: str
    line: str
    checkpoint: InputRef
    eval_report: InputRef
    gates: dict[str, Any] = Field(description="The gates' settings, as JSON.")
    verdicts: tuple[Verdict, ...] = Field(description="Of every gate, including those that passed.")
    tried_next: tuple[SuggestionRecord, ...] = Field(description="What to try, the best supported first.")
    suggestions: tuple[str, ...] = Field(description="The same as sentences, without any text of rows.")
    actor: str
    at: str = Field(description="UTC, ISO 8601.")


def quarantine(
    artifacts: Artifacts, request: WorkRequest, verdicts: Sequence[Verdict], *, actor: str
) -> RejectionRecord | None:
    """The record of the candidate of the adapter ``request``, written unless it exists; None if every gate accepts the
    candidate, and for an ungated result."""
    if passed(verdicts) or without_gates(request.params):
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
    return record.create_or_get(artifacts.store, path)


def find_rejection(store: Store, request: WorkRequest, verdicts: Sequence[Verdict]) -> RejectionRecord | None:
    """The record of this candidate with these verdicts. Raises CorruptArtifact for an unreadable one."""
    return _read(store, record_path(request, verdicts))


def last_rejection(store: Store, dataset: str, recipe: str) -> RejectionRecord | None:
    """The last record of a candidate of the pair, whatever version of the code made it. Raises CorruptArtifact for an
    unreadable one."""
    folder = f"{DatasetKey.parse(dataset).tenant}/{FOLDER}"
    paths = [f"{folder}/{each}/{name}" for each in store.folders(folder) for name in store.names(f"{folder}/{each}")]
    of_pair = [
        found for path in paths if (found := _read(store, path)) and (found.dataset, found.recipe) == (dataset, recipe)
    ]
    return max(of_pair, key=lambda each: each.at, default=None)


def sentences(tried: Sequence[Suggestion]) -> tuple[str, ...]:
    return tuple(each.sentence() for each in tried)


def record_path(request: WorkRequest, verdicts: Sequence[Verdict]) -> str:
    address = request.address
    words = digest([verdict.model_dump(mode="json") for verdict in verdicts])
    return f"{address.tenant}/{FOLDER}/{address.fingerprint}/{words}.json"


def _read(store: Store, path: str) -> RejectionRecord | None:
    return RejectionRecord.find(store, path)
