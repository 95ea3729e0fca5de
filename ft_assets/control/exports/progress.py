"""The exports of a submission's adapter, for ``ft status``: those that its recipe asks for, and those made by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from ft_assets.control import identity
from ft_assets.control.exports.judging import judge_export, require_as_good
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.submissions.works import Work, read_work
from ft_assets.records.submissions import Submission
from ft_assets.settings.catalogue.export_format import ExportFormat
from ft_assets.settings.catalogue.exports import EXPORTS
from ft_assets.settings.ungated import NOT_JUDGED, without_gates
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import GateRejected, StoreUnavailable, UserError
from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True)
class ExportProgress:
    """The state of one export.

    Args:
        format: its name in ``EXPORTS``.
        state: waits, making, evaluating, failed, rejected, ungated, or accepted (as good as the adapter).
        phase: its worker's present phase, or its last.
        address: where it is, once it is made.
        report: its own evaluation, once that is made.
        detail: the verdict's reasons, or why it could not be made.
    """

    format: str
    state: str
    phase: str = ""
    address: str = ""
    report: str = ""
    detail: str = ""


def export_progress(store: Store, submission: Submission) -> list[ExportProgress]:
    """The state of the exports that the recipe asks for, and of others that were made; empty before the adapter
    exists."""
    artifacts = Artifacts(store)
    try:
        adapter = identity.exported(artifacts, submission.dataset, submission.recipe, submission.gates)
        asked = get_recipe(store, submission.recipe).recipe.exports
    except StoreUnavailable:
        raise
    except UserError:
        # The adapter does not exist yet, or the status itself says what is wrong.
        return []
    return progress_of(artifacts, adapter, asked)


def progress_of(artifacts: Artifacts, adapter: Artifact, asked: Sequence[str]) -> list[ExportProgress]:
    """The state of an adapter's exports: those ``asked`` for by name, and all that were made."""
    found = [_standing(artifacts, adapter, wanted) for wanted in EXPORTS.values()]
    return [each for each in found if each.format in asked or each.address]


def _standing(artifacts: Artifacts, adapter: Artifact, wanted: ExportFormat) -> ExportProgress:
    found = ExportProgress(format=wanted.name, state="waits")
    try:
        for step in wanted.steps:
            request = partial(identity.export_request, artifacts, adapter, step)
            work = read_work(artifacts, step.asset, request)
            if not work.done:
                return _unfinished(found, work, "making")
        made = artifacts.get(request().address)
        found = replace(found, address=str(made.address))
        if without_gates(adapter.manifest.identity["params"]):
            return replace(found, state="ungated", detail=NOT_JUDGED)
        again = partial(identity.reevaluation_request, artifacts, adapter, made)
        work = read_work(artifacts, "eval_report", again)
        if not work.done:
            return _unfinished(found, work, "evaluating")
        report = artifacts.get(again().address)
        return _judged(replace(found, report=str(report.address)), artifacts, adapter, made, report)
    except StoreUnavailable:
        raise
    except UserError as error:
        return replace(found, state="failed", detail=error.what)


def _unfinished(found: ExportProgress, work: Work, at: str) -> ExportProgress:
    phase = str(work.progress.get("phase", ""))
    if work.running:
        return replace(found, state=at, phase=f"{work.asset}: {phase}" if phase else work.asset)
    if work.ending is None:
        return found
    error = work.ending.error or {}
    return replace(found, state="failed", phase=phase, detail=error.get("what") or f"its worker: {work.ending.outcome}")


def _judged(
    found: ExportProgress, artifacts: Artifacts, adapter: Artifact, made: Artifact, report: Artifact
) -> ExportProgress:
    verdicts = judge_export(artifacts, adapter, made, report)
    try:
        require_as_good(verdicts, str(made.address))
    except GateRejected as error:
        return replace(found, state="rejected", detail=error.what)
    return replace(found, state="accepted", detail="all gates passed again, as good as the adapter")
