"""Why a candidate does not become an adapter."""

from collections.abc import Sequence

from ft_assets.records.submissions import NOT_PROVED
from ft_assets.settings.catalogue.gates import GATES, WAIVABLE
from ft_assets.workers.evals.gates import passed
from ft_assets.workers.evals.verdict import Verdict
from ft_assets.workers.evals.verdicts import in_words, judge_candidate
from ft_resources.artifacts import Artifacts
from ft_resources.errors import GateRejected
from ft_resources.work import WorkRequest


def rejection_reason(artifacts: Artifacts, adapter_request: WorkRequest) -> str:
    """Why the candidate of ``adapter_request`` does not pass, one line per verdict; "" if it passes."""
    verdicts = judge_candidate(artifacts, adapter_request.inputs, adapter_request.params)
    return "" if passed(verdicts) else reasons(verdicts)


def require_pass(verdicts: list[Verdict], label: str) -> None:
    """Raise GateRejected unless every gate passed."""
    if not passed(verdicts):
        raise rejected(verdicts, label)


def rejected(verdicts: Sequence[Verdict], label: str) -> GateRejected:
    """The error of a rejected candidate, whose first line reads as the rejection."""
    blocking = [verdict for verdict in verdicts if not verdict.lets_through]
    hints = [GATES[verdict.gate].remedy for verdict in blocking if verdict.outcome == "fail" and verdict.numbers]
    unclear = [verdict.gate for verdict in blocking if verdict.outcome == "inconclusive"]
    if unclear:
        hints.append(f"measure more samples for {', '.join(unclear)}")
    if WAIVABLE.intersection(unclear):
        hints.append("if there are no more to measure, a person may waive the verdict: ft gate waive")
    return GateRejected(
        f"the candidate was {headline(verdicts)}\n{reasons(verdicts)}",
        where=label,
        remedy="; ".join(hints) + "." if hints else "Materialize eval_report for this pair, then adapter again.",
    )


def headline(verdicts: Sequence[Verdict]) -> str:
    """Such as ``rejected by task_gain, safety``, or ``not proved by …`` where no gate failed."""
    blocking = [verdict for verdict in verdicts if not verdict.lets_through]
    failed = any(verdict.outcome == "fail" for verdict in blocking)
    gates = ", ".join(verdict.gate for verdict in blocking)
    return f"{'rejected' if failed or not blocking else NOT_PROVED}{f' by {gates}' if gates else ''}"


def reasons(verdicts: Sequence[Verdict]) -> str:
    """The reasons why verdicts block an adapter, one line each. If none of them is a fail, a first line says so: then
    only the number of samples speaks against the candidate."""
    wanted = [verdict for verdict in verdicts if not verdict.lets_through]
    lines = [f"{verdict.gate}: {verdict.outcome}, {in_words(verdict)}" for verdict in wanted]
    if wanted and all(verdict.outcome == "inconclusive" for verdict in wanted):
        gates = ", ".join(verdict.gate for verdict in wanted)
        lines.insert(0, f"{NOT_PROVED}: no gate failed, but the samples are too few to decide {gates}")
    return "\n".join(lines) or "no verdict"
