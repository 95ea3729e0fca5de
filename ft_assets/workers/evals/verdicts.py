"""From the store to verdicts: the only way in which checks, the report's table and the export read evidence."""

from collections.abc import Mapping
from typing import Any

from ft_assets.settings.recipe.acceptance import GateSettings
from ft_assets.settings.ungated import NO_GATES, NoGates, without_gates
from ft_assets.workers.evals.evidence import REPORT, Evidence, read_evidence
from ft_assets.workers.evals.gates import judge, refuse
from ft_assets.workers.evals.verdict import Verdict
from ft_assets.workers.evals.waivers import WaiverRecord, find_waiver, waive
from ft_assets.workers.training.journal import ends_not_finite
from ft_resources.artifacts import Address, Artifact, Artifacts, InputRef
from ft_resources.canonical import canonical_json
from ft_resources.errors import StoreUnavailable, UserError

_MARKS = {"pass": "✅ pass", "fail": "❌ fail", "inconclusive": "❔ inconclusive", "not required": "➖ not required"}
# Inputs that the adapter and its eval report must have in common.
_SHARED = ("checkpoint", "base")


def judge_candidate(artifacts: Artifacts, inputs: Mapping[str, InputRef], params: Mapping[str, Any]) -> list[Verdict]:
    """The verdicts on the candidate from which an ``adapter`` with these inputs and params would be made.

    The report's per-sample results are judged. Evidence that is absent, unreadable, damaged, about something else or
    contradicted by its samples fails every gate. Raises only StoreUnavailable, as the store may be read again later.
    """
    # Imported here because the code location loads this module, and numpy and pyarrow are slow to import.
    from ft_assets.workers.evals.remeasure import remeasure

    try:
        report = artifacts.get(Address.parse(inputs["eval_report"].address))
        if report.digest != inputs["eval_report"].digest:
            return refuse(f"the eval report {report.address} has changed since it was made")
        theirs = report.manifest.inputs
        strangers = [] if report.address.asset == "eval_report" else ["asset"]
        strangers += [name for name in _SHARED if name not in theirs or theirs[name].digest != inputs[name].digest]
        if strangers:
            return refuse(f"the eval report {report.address} belongs to another {strangers[0]}")
        if ends_not_finite(artifacts.get(Address.parse(inputs["checkpoint"].address)).facts):
            return refuse("the training ended with a validation loss that is not a finite number")
        measured, gates = remeasure(report, load_evidence(report)), _gates(params)
        verdicts = judge(measured, gates, expected_fingerprint=report.address.fingerprint, suites=params["suites"])
        if gates == NO_GATES:
            return verdicts
        waivers = [find_waiver(artifacts.store, report, gates, verdict) for verdict in verdicts]
    except StoreUnavailable:
        raise
    except UserError as error:
        return refuse(f"the evidence cannot be used: {error.what}")
    return [verdict.model_copy(update={"waiver": waiver}) for verdict, waiver in zip(verdicts, waivers, strict=True)]


def waive_candidate(
    artifacts: Artifacts, inputs: Mapping[str, InputRef], params: Mapping[str, Any], gate: str, *, actor: str, note: str
) -> WaiverRecord:
    """Waive the inconclusive verdict of ``gate`` on a candidate; see ``waive`` for what is refused."""
    gates = _gates(params)
    if gates == NO_GATES:
        raise UserError(
            "the recipe has no gates, so there is nothing to waive",
            where=f"gate {gate}",
            remedy="Use the ungated result as it is, or add gates in the recipe's next version.",
        )
    verdicts = {verdict.gate: verdict for verdict in judge_candidate(artifacts, inputs, params)}
    if gate not in verdicts:
        raise UserError(f"there is no gate {gate!r}", where="gate", remedy=f"Name one of {', '.join(verdicts)}.")
    report = artifacts.get(Address.parse(inputs["eval_report"].address))
    return waive(artifacts.store, report, gates, verdicts[gate], actor=actor, note=note)


def _gates(params: Mapping[str, Any]) -> GateSettings | NoGates:
    return NO_GATES if without_gates(params) else GateSettings.model_validate_json(canonical_json(params["gates"]))


def load_evidence(report: Artifact) -> Evidence:
    """The evidence in an eval report. Raises UserError if it cannot be read and verified."""
    if REPORT not in report.manifest.files:
        raise UserError(f"{report.address} has no {REPORT}", remedy="Materialize eval_report again.")
    return read_evidence(report.read(REPORT), report.location(REPORT))


def verdict_table(verdicts: list[Verdict]) -> str:
    """The verdicts as a Markdown table."""
    lines = [f"| {v.gate} | {_MARKS[v.outcome]} | {in_words(v).replace('|', '/')} |" for v in verdicts]
    return "\n".join(["| gate | verdict | reason |", "|---|---|---|", *lines])


def in_words(verdict: Verdict) -> str:
    """The reason, what the samples could have shown, and who waived it, if anyone did."""
    text = verdict.reason
    # The smallest changes that the samples show, in the verdict's own units.
    shown = [
        f"{name} ±{figures['minimum_detectable']:.2g}{' points' if 'drop_points' in figures else ''}"
        for name, figures in verdict.numbers.items()
    ]
    if shown:
        text += f" (detectable with 80% power: {', '.join(shown)})"
    if verdict.waiver is not None:
        text += f"; waived by {verdict.waiver.actor} at {verdict.waiver.at}: {verdict.waiver.note}"
    return text


def score_table(evidence: Evidence) -> str:
    """Before and after, as a Markdown table."""
    lines = [
        f"| {key} ({suite.metric}) | {suite.base:.1%} | {suite.candidate:.1%} | "
        f"{suite.interval_points[0]:+.1f} to {suite.interval_points[1]:+.1f} points | {suite.n} |"
        for key, suite in evidence.suites.items()
    ]
    for name, metric in evidence.holdout.items():
        form, scale, unit = (".1%", 100, " points") if metric.higher_is_better else (".4g", -1, "")
        low, high = sorted(scale * end for end in metric.interval)
        lines.append(
            f"| holdout {name} | {metric.base:{form}} | {metric.candidate:{form}} | "
            f"{low:+.3g} to {high:+.3g}{unit} | {metric.n} |"
        )
    for name, rate in evidence.safety.items():
        lines.append(f"| {name.replace('_', '-')} | {rate.base:.1%} | {rate.candidate:.1%} | | {rate.n} |")
    header = ["| score | base | candidate | change, 95% confidence interval | n |", "|---|---:|---:|---:|---:|"]
    return "\n".join([*header, *lines])
