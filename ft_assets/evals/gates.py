"""The gates: pure functions from evidence and thresholds to verdicts. They fail closed.

A verdict is ``pass`` only when the evidence is there, belongs to this very candidate, and shows what is required.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ft_assets.evals.evidence import Evidence, MetricEvidence, SuiteEvidence
from ft_assets.evals.power import minimum_detectable, samples_to_decide
from ft_assets.recipes.acceptance import BenchmarkRegressionGate, GateSettings, TaskGainGate

BENCHMARK_REGRESSION = "benchmark_regression"
TASK_GAIN = "task_gain"
GATES: dict[str, str] = {
    BENCHMARK_REGRESSION: "On no general suite is the candidate clearly worse than its base.",
    TASK_GAIN: "On the dataset's holdout the candidate is clearly better than its base.",
}
# Gain required of a share whose base is 0, where a relative gain means nothing.
ABSOLUTE_FLOOR = 0.05
# Below this many holdout rows an interval says too little about anything.
MIN_ROWS = 10
# A drop of exactly the limit passes; 0.52 - 0.50 is not exactly 2 points in binary.
_EPSILON = 1e-9

Outcome = Literal["pass", "fail", "inconclusive"]
Numbers = dict[str, float | int]


class Verdict(BaseModel):
    """What a gate says, and why. ``numbers`` maps what was judged (suite or metric) to its figures."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    gate: str
    outcome: Outcome
    reason: str
    numbers: dict[str, Numbers] = {}


def judge(
    evidence: Evidence, gates: GateSettings, *, expected_fingerprint: str, suites: Sequence[str]
) -> list[Verdict]:
    """One verdict for each of ``GATES``.

    Args:
        expected_fingerprint: of the eval report that belongs to this candidate; other evidence is stale.
        suites: keys of the suites that must have been scored.
    """
    if evidence.fingerprint != expected_fingerprint:
        return refuse(
            f"the evidence belongs to another eval report ({evidence.fingerprint[:12]}, "
            f"not {expected_fingerprint[:12]}); materialize eval_report for this pair"
        )
    return [
        judge_suites(evidence.suites, gates.benchmark_regression, suites),
        judge_gain(evidence.holdout.get(gates.task_gain.metric), gates.task_gain),
    ]


def refuse(reason: str) -> list[Verdict]:
    """Every gate fails for one reason, such as evidence that cannot be read."""
    return [Verdict(gate=gate, outcome="fail", reason=reason) for gate in GATES]


def passed(verdicts: Iterable[Verdict]) -> bool:
    """Whether every gate has a verdict and every verdict is pass."""
    outcomes = [(verdict.gate, verdict.outcome) for verdict in verdicts]
    return {gate for gate, _ in outcomes} == set(GATES) and all(outcome == "pass" for _, outcome in outcomes)


def judge_suites(measured: dict[str, SuiteEvidence], gate: BenchmarkRegressionGate, suites: Sequence[str]) -> Verdict:
    """``benchmark_regression``: the worst outcome of all required suites."""
    if not suites:
        return Verdict(gate=BENCHMARK_REGRESSION, outcome="fail", reason="no suite is required, so nothing is shown")
    findings: list[tuple[Outcome, str]] = []
    numbers: dict[str, Numbers] = {}
    for key in suites:
        suite = measured.get(key)
        if suite is None:
            findings.append(("fail", f"{key} was not scored"))
            continue
        findings.append(_judge_suite(key, suite, gate))
        numbers[key] = {
            "base": suite.base,
            "candidate": suite.candidate,
            "n": suite.n,
            "drop_points": -suite.difference_points,
            "drop_upper_points": -suite.interval_points[0],
            "max_drop_points": gate.max_drop_points,
            "margin_points": gate.margin_points,
        }
    order: list[Outcome] = ["fail", "inconclusive", "pass"]
    outcome = min((outcome for outcome, _ in findings), key=order.index)
    findings.sort(key=lambda finding: order.index(finding[0]))
    reason = "; ".join(text for _, text in findings)
    return Verdict(gate=BENCHMARK_REGRESSION, outcome=outcome, reason=reason, numbers=numbers)


def _judge_suite(key: str, suite: SuiteEvidence, gate: BenchmarkRegressionGate) -> tuple[Outcome, str]:
    drop, upper = -suite.difference_points, -suite.interval_points[0]
    limit = gate.max_drop_points + gate.margin_points
    change = f"{key}: {suite.metric} {suite.base:.1%} → {suite.candidate:.1%} on {suite.n} items"
    if drop > gate.max_drop_points + _EPSILON:
        return "fail", f"{change}, a drop of {drop:.1f} points where at most {gate.max_drop_points:g} are allowed"
    if upper <= limit + _EPSILON:
        return "pass", f"{change}, and the drop is at most {max(0.0, upper):.1f} points (95 %)"
    needed = samples_to_decide(suite.n, upper - drop, limit - drop)
    more = f"about {needed - suite.n} more items would decide" if needed else "no number of items would decide"
    return (
        "inconclusive",
        f"{change}, but the drop may be {upper:.1f} points (95 %), more than the {limit:g} tolerated; {more}",
    )


def judge_gain(measured: MetricEvidence | None, gate: TaskGainGate) -> Verdict:
    """``task_gain``: the observed gain reaches the minimum and its interval excludes zero."""
    if measured is None:
        return Verdict(gate=TASK_GAIN, outcome="fail", reason=f"{gate.metric} was not measured on the holdout")
    low, high = measured.interval
    half = (high - low) / 2
    numbers: Numbers = {
        "base": measured.base,
        "candidate": measured.candidate,
        "n": measured.n,
        "improvement": measured.improvement,
        "improvement_low": low,
        "improvement_high": high,
        "p_value": measured.p_value,
        "min_relative": gate.min_relative,
        "minimum_detectable": minimum_detectable(half),
    }
    if measured.relative_gain is not None:
        numbers["relative_gain"] = measured.relative_gain
    outcome, reason = _judge_gain(measured, gate)
    change = f"{gate.metric} {measured.base:.3g} → {measured.candidate:.3g} on {measured.n} holdout rows"
    return Verdict(gate=TASK_GAIN, outcome=outcome, reason=f"{change}, {reason}", numbers={gate.metric: numbers})


def _judge_gain(measured: MetricEvidence, gate: TaskGainGate) -> tuple[Outcome, str]:
    if measured.n < MIN_ROWS:
        return "inconclusive", f"too few to tell; {MIN_ROWS - measured.n} more holdout rows are the least needed"
    enough, gained = _gained(measured, gate)
    if not enough:
        return "fail", gained
    low, high = measured.interval
    if low > 0:
        return "pass", f"{gained}; the improvement is between {low:.3g} and {high:.3g} (95 %)"
    needed = samples_to_decide(measured.n, measured.improvement - low, measured.improvement)
    more = f"about {needed - measured.n} more rows would decide" if needed else "no number of rows would decide"
    return "inconclusive", f"{gained}, but the interval ({low:.3g} to {high:.3g}, 95 %) includes no gain; {more}"


def _gained(measured: MetricEvidence, gate: TaskGainGate) -> tuple[bool, str]:
    """Whether the observed gain is large enough, and the words for it."""
    gain, least = measured.relative_gain, gate.min_relative
    if gain is not None:
        what = "of the remaining error" if measured.higher_is_better and measured.base > 0.5 else "relative"
        enough = gain > 0 and gain >= least - _EPSILON
        return enough, f"a gain of {gain:.1%} {what} where at least {least:.1%} is required"
    if measured.base > 0:
        return False, "and the base has no error left to improve on; choose another metric or a harder holdout"
    if not measured.higher_is_better:
        return False, "and nothing can be lower than the base's 0"
    enough = measured.improvement >= ABSOLUTE_FLOOR - _EPSILON
    return enough, f"a gain of {measured.improvement:.3g} from 0 where at least {ABSOLUTE_FLOOR:g} is required"
