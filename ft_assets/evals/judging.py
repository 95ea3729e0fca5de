"""From the store to verdicts: the one way in which checks, the report's table and the export look at evidence."""

from collections.abc import Mapping
from typing import Any

from ft_assets.evals.evidence import REPORT, Evidence, read_evidence
from ft_assets.evals.gates import Verdict, judge, refuse
from ft_assets.recipes.acceptance import GateSettings
from ft_resources.artifacts import Address, Artifact, Artifacts, InputRef
from ft_resources.canonical import canonical_json
from ft_resources.errors import StoreUnavailable, UserError

# Inputs that the adapter and its eval report must have in common.
_SHARED = ("checkpoint", "base")


def judge_candidate(artifacts: Artifacts, inputs: Mapping[str, InputRef], params: Mapping[str, Any]) -> list[Verdict]:
    """The verdicts on the candidate that an ``adapter`` with these inputs and params would be made of.

    Evidence that is absent, unreadable, damaged or about something else fails every gate. Raises StoreUnavailable,
    and nothing else: what cannot be asked may be asked again later.
    """
    try:
        report = artifacts.get(Address.parse(inputs["eval_report"].address))
        if report.digest != inputs["eval_report"].digest:
            return refuse(f"the eval report {report.address} has changed since it was made")
        stranger = _stranger(report, inputs)
        if stranger:
            return refuse(f"the eval report {report.address} is about another {stranger}")
        evidence = load_evidence(report)
        gates = GateSettings.model_validate_json(canonical_json(params["gates"]))
    except StoreUnavailable:
        raise
    except UserError as error:
        return refuse(f"the evidence cannot be used: {error.what}")
    return judge(evidence, gates, expected_fingerprint=report.address.fingerprint, suites=params["suites"])


def load_evidence(report: Artifact) -> Evidence:
    """The evidence in an eval report. Raises UserError where there is none that can be read and verified."""
    if REPORT not in report.manifest.files:
        raise UserError(f"{report.address} has no {REPORT}", remedy="Materialize eval_report again.")
    return read_evidence(report.read(REPORT), report.location(REPORT))


def verdict_table(verdicts: list[Verdict]) -> str:
    """The verdicts as a Markdown table."""
    marks = {"pass": "✅ pass", "fail": "❌ fail", "inconclusive": "❔ inconclusive"}
    lines = [f"| {v.gate} | {marks[v.outcome]} | {v.reason.replace('|', '/')} |" for v in verdicts]
    return "\n".join(["| gate | verdict | why |", "|---|---|---|", *lines])


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
    header = ["| score | base | candidate | change, 95 % interval | n |", "|---|---:|---:|---:|---:|"]
    return "\n".join([*header, *lines])


def _stranger(report: Artifact, inputs: Mapping[str, InputRef]) -> str:
    """The name of an input in which the report differs from the adapter, "" where there is none."""
    if report.address.asset != "eval_report":
        return "asset"
    for name in _SHARED:
        theirs = report.manifest.inputs.get(name)
        if theirs is None or theirs.digest != inputs[name].digest:
            return name
    return ""
