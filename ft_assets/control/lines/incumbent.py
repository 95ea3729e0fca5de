"""Compare a candidate with its line's served adapter, on the per-sample results of both in the store."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ft_assets.control.lines.incumbent_holdout import pair_likelihood, pair_share
from ft_assets.settings.catalogue.gates.regression import BenchmarkRegressionGate
from ft_assets.settings.catalogue.gates.safety import SafetyGate
from ft_assets.settings.catalogue.gates.task_gain import TaskGainGate
from ft_assets.settings.recipe.acceptance import GateSettings
from ft_assets.workers.evals.evidence import EXACT_MATCH, PERPLEXITY, SuiteEvidence
from ft_assets.workers.evals.gate_regression import judge_incumbent
from ft_assets.workers.evals.paired_comparison import compare_suite
from ft_assets.workers.evals.refusals import CLASSIFIER_INPUT, SAFETY_INPUT
from ft_assets.workers.evals.samples import read_suite_samples
from ft_assets.workers.evals.verdict import Verdict
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.canonical import canonical_json

_SAMPLES = "samples/"
# Samples of refusals, the direction that is better, and the metric in words.
_REFUSALS = (("refusals", 1, "harmful prompts refused"), ("over_refusals", -1, "safe prompts answered"))
HOLDOUT = "holdout"
# The candidate's column in a sample file: for a suite, and for answers on the holdout.
_COLUMNS = ("candidate", "candidate_correct")


def compare_with_incumbent(
    artifacts: Artifacts, candidate: Artifact, incumbent: Artifact, floor: BenchmarkRegressionGate
) -> Verdict:
    """Whether ``candidate`` is not worse than ``incumbent``, by the limits of the candidate's own gates, or those of
    ``floor`` where they allow more.

    Suites count if both were scored on the same bytes. Of the holdout, the rows that both have count; a later dataset
    version moves no row to another split. There exact match is compared, and the metric of the candidate's
    ``task_gain``: shares by the regression gate's limits; perplexity may rise by as much as ``task_gain`` requires it
    to fall. Refusals of harmful prompts and answers to safe ones count if both were asked the same prompts and judged
    by the same rule; the safety gate's margin of uncertainty applies. With nothing in common, it does not pass.
    """
    gates = GateSettings.model_validate_json(canonical_json(candidate.manifest.identity["params"]["gates"]))
    return compare_reports(_report(artifacts, incumbent), _report(artifacts, candidate), gates, floor)


def compare_reports(
    incumbent: Artifact, candidate: Artifact, gates: GateSettings, floor: BenchmarkRegressionGate
) -> Verdict:
    """The same from the eval reports of the two, by ``gates``."""
    reports = incumbent, candidate
    limits, gain = _tighter(gates.benchmark_regression, floor), gates.task_gain
    shares, likelihood = pair_task(*reports, gain.metric)
    return judge_incumbent(
        ({**pair_scores(*reports), **shares}, limits),
        (likelihood, limits.model_copy(update={"max_drop_points": _rise(gain, floor)})),
        (
            pair_refusals(*reports),
            limits.model_copy(update={"margin_points": 100 * (gates.safety or SafetyGate()).margin}),
        ),
    )


def _rise(gain: TaskGainGate, floor: BenchmarkRegressionGate) -> float:
    """Points that a token's likelihood may fall, bounded: a candidate's own gates may not loosen it without limit."""
    return min(100 * gain.min_relative, max(floor.max_drop_points, 100 * TaskGainGate().min_relative))


def _tighter(one: BenchmarkRegressionGate, other: BenchmarkRegressionGate) -> BenchmarkRegressionGate:
    return BenchmarkRegressionGate(
        max_drop_points=min(one.max_drop_points, other.max_drop_points),
        margin_points=min(one.margin_points, other.margin_points),
    )


def not_compared(artifacts: Artifacts, candidate: Artifact, incumbent: Artifact) -> list[str]:
    """What was measured for the incumbent but not, or differently, for the candidate: suites and refusals."""
    before, after = _report(artifacts, incumbent), _report(artifacts, candidate)
    with TemporaryDirectory(prefix="ft-incumbent-") as scratch:
        measured = _scores(before, Path(scratch))
    gone = sorted(measured.keys() - pair_scores(before, after).keys())
    counted = _how_counted(before)
    if counted["suite"] and _how_counted(after) != counted:
        gone.append("refusals, which another suite or another rule counted")
    return gone


def pair_task(
    incumbent: Artifact, candidate: Artifact, metric: str
) -> tuple[dict[str, SuiteEvidence], dict[str, SuiteEvidence]]:
    """The task's metric on the holdout rows in both eval reports: as a share, or as a likelihood for perplexity. Both
    are empty for exact match, which ``pair_scores`` returns anyway."""
    if metric == EXACT_MATCH:
        return {}, {}
    with TemporaryDirectory(prefix="ft-incumbent-") as scratch:
        sides = [_holdout(report, Path(scratch) / side) for report, side in ((incumbent, "a"), (candidate, "b"))]
    shared = sorted(sides[0].keys() & sides[1].keys())
    if not shared:
        return {}, {}
    names = [set.intersection(*({*side[item]} for item in shared)) for side in sides]
    before, after = (
        {name: [side[item][name] for item in shared] for name in sorted(known)}
        for side, known in zip(sides, names, strict=True)
    )
    if metric == PERPLEXITY:
        return {}, {f"{HOLDOUT} {metric}": pair_likelihood(before, after)}
    found = pair_share(before, after, metric)
    return ({f"{HOLDOUT} {metric}": found} if found else {}), {}


def _holdout(report: Artifact, scratch: Path) -> dict[str, dict[str, Any]]:
    """The columns of the report's holdout samples, by row."""
    ids, columns = read_suite_samples(report.path(f"{_SAMPLES}{HOLDOUT}.parquet", scratch))
    rows = zip(*columns.values(), strict=True) if columns else (() for _ in ids)
    return {item: dict(zip(columns, row, strict=True)) for item, row in zip(ids, rows, strict=True)}


def pair_refusals(incumbent: Artifact, candidate: Artifact) -> dict[str, SuiteEvidence]:
    """Shares of harmful prompts refused and of safe ones answered, paired by prompt, with the incumbent as the base;
    empty without a safety suite, or if the two were counted differently."""
    counted = _how_counted(candidate)
    if not counted["suite"] or _how_counted(incumbent) != counted:
        return {}
    measured = {}
    with TemporaryDirectory(prefix="ft-incumbent-") as scratch:
        for name, sign, words in _REFUSALS:
            before, after = (
                _refused(report, name, Path(scratch) / side)
                for side, report in (("incumbent", incumbent), ("candidate", candidate))
            )
            shared = sorted(before.keys() & after.keys())
            if shared:
                # For both metrics, more is better.
                sides = [
                    (shared, [float(each[item] if sign > 0 else 1 - each[item]) for item in shared])
                    for each in (before, after)
                ]
                measured[name] = compare_suite(name, words, *sides, seed=0)
    return measured


def _how_counted(report: Artifact) -> dict[str, Any]:
    """What determines refusals besides the answers: the suite's bytes, the rule, the classifier and its settings."""
    params, inputs = report.manifest.identity["params"], report.manifest.inputs
    return {
        "suite": [ref.digest for name, ref in inputs.items() if name.startswith(SAFETY_INPUT)],
        "classifier": inputs[CLASSIFIER_INPUT].digest if CLASSIFIER_INPUT in inputs else None,
        "settings": params.get("evaluation", {}).get("refusal_classifier"),
        **{name: params.get(name) for name in ("refusals", "refusal_question")},
    }


def _refused(report: Artifact, name: str, scratch: Path) -> dict[str, float]:
    """Whether the report's candidate refused, by prompt; empty if not measured."""
    path = f"{_SAMPLES}{name}.parquet"
    if path not in report.manifest.files:
        return {}
    ids, columns = read_suite_samples(report.path(path, scratch))
    return dict(zip(ids, columns["candidate"], strict=True))


def pair_scores(incumbent: Artifact, candidate: Artifact) -> dict[str, SuiteEvidence]:
    """Each score in both eval reports, paired by item, with the incumbent as the base."""
    with TemporaryDirectory(prefix="ft-incumbent-") as scratch:
        before, after = _scores(incumbent, Path(scratch)), _scores(candidate, Path(scratch))
    measured = {}
    for key in sorted(before.keys() & after.keys()):
        shared = sorted(before[key].keys() & after[key].keys())
        if shared:
            measured[key] = compare_suite(
                key,
                "exact_match" if key == HOLDOUT else "acc",
                (shared, [float(before[key][item]) for item in shared]),
                (shared, [float(after[key][item]) for item in shared]),
                seed=0,
            )
    return measured


def _scores(report: Artifact, scratch: Path) -> dict[str, Mapping[str, Any]]:
    """Scores by item id, for the holdout and for each suite (named with the digest of its bytes)."""
    found: dict[str, Mapping[str, Any]] = {}
    for name in report.manifest.files:
        if not (name.startswith(_SAMPLES) and name.endswith(".parquet")):
            continue
        key = name.removeprefix(_SAMPLES).removesuffix(".parquet")
        ids, columns = read_suite_samples(report.path(name, scratch))
        column = next((columns[each] for each in _COLUMNS if each in columns), None)
        suite = report.manifest.inputs.get(f"suite:{key}")
        if column is None or (suite is None and key != HOLDOUT):
            continue
        # A suite with the same name and other bytes is another suite.
        shown = key if suite is None else f"{key} ({suite.digest[:12]})"
        found[shown] = dict(zip(ids, column, strict=True))
    return found


def _report(artifacts: Artifacts, adapter: Artifact) -> Artifact:
    return artifacts.get(Address.parse(adapter.manifest.inputs["eval_report"].address))
