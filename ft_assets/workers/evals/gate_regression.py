"""The gates that compare a candidate with its predecessors: its base, and at promotion the incumbent."""

import math
from collections.abc import Mapping, Sequence

from ft_assets.settings.catalogue.gates.regression import REGRESSION, BenchmarkRegressionGate
from ft_assets.workers.evals.evidence import SuiteEvidence
from ft_assets.workers.evals.power import most_likely_share, samples_to_see
from ft_assets.workers.evals.verdict import EPSILON, MIN_ROWS, Finding, Numbers, Verdict, interval_numbers, more, worst

INCUMBENT = "incumbent"


def judge_suites(
    measured: Mapping[str, SuiteEvidence], gate: BenchmarkRegressionGate, suites: Sequence[str]
) -> Verdict:
    """``regression``: the worst outcome of all required suites, each compared with the base."""
    if not suites:
        return Verdict(gate=REGRESSION.name, outcome="fail", reason="no suite is required, so nothing was tested")
    return worst(REGRESSION.name, *_find_drops(measured, gate, suites))


def judge_incumbent(*limited: tuple[Mapping[str, SuiteEvidence], BenchmarkRegressionGate]) -> Verdict:
    """``incumbent``: no score of a candidate is worse than the line's incumbent, by the rule of ``regression``.

    Args:
        limited: scores that both have, paired by item, higher is better, with the incumbent's in the base's place;
            and the limits that they are judged by.
    """
    findings: list[Finding] = []
    numbers: dict[str, Numbers] = {}
    for measured, gate in limited:
        found, figures = _find_drops(measured, gate, sorted(measured))
        findings += found
        numbers |= figures
    if not findings:
        return Verdict(
            gate=INCUMBENT,
            outcome="fail",
            reason="the two adapters have no measurement in common, so they cannot be compared",
        )
    return worst(INCUMBENT, findings, numbers)


def _find_drops(
    measured: Mapping[str, SuiteEvidence], gate: BenchmarkRegressionGate, keys: Sequence[str]
) -> tuple[list[Finding], dict[str, Numbers]]:
    findings: list[Finding] = []
    numbers: dict[str, Numbers] = {}
    for key in keys:
        suite = measured.get(key)
        if suite is None:
            findings.append(("fail", f"{key} was not scored"))
            continue
        drop, (low, high) = -suite.difference_points, suite.interval_points
        most = max(-low, _exact(drop, suite.n))
        findings.append(_judge_drop(key, suite, gate, most))
        numbers[key] = {
            "base": suite.base,
            "candidate": suite.candidate,
            "drop_points": drop,
            "max_drop_points": gate.max_drop_points,
            "margin_points": gate.margin_points,
            **interval_numbers(suite.n, (-high, most)),
        }
    return findings, numbers


def _judge_drop(key: str, suite: SuiteEvidence, gate: BenchmarkRegressionGate, most: float) -> Finding:
    """Fail: the observed change is a drop and exceeds the limit. Pass: it does not, and ``most``, the largest drop that
    the items leave possible, exceeds neither limit nor margin."""
    drop, lower = -suite.difference_points, -suite.interval_points[1]
    limit = gate.max_drop_points + gate.margin_points
    change = f"{key}: {suite.metric} {suite.base:.1%} → {suite.candidate:.1%} on {suite.n} items"
    if drop > gate.max_drop_points + EPSILON:
        allowed = f"a drop of {drop:.1f} points (allowed: at most {gate.max_drop_points:g})"
        if lower > 0:
            return "fail", f"{change}, {allowed}"
        decide = more(suite.n, drop - lower, drop, "items")
        return "inconclusive", f"{change}, {allowed}, but with only {suite.n} items this can be chance; {decide}"
    if suite.n < MIN_ROWS:
        return "inconclusive", f"{change}, too few to decide; at least {MIN_ROWS - suite.n} more items are needed"
    if most <= limit + EPSILON:
        # If nothing was right before, a pass shows nothing, and must not look as if it did.
        nothing = "" if suite.base > 0 else "; the base scores 0%, so no drop is possible and the pass proves nothing"
        return (
            "pass",
            f"{change}, and the drop is at most {max(0.0, most):.1f} points (95% confidence interval){nothing}",
        )
    least = samples_to_see((limit - drop) / 100)
    decide = more(suite.n, -suite.interval_points[0] - drop, limit - drop, "items", least=least)
    may = (
        f"the drop may be up to {most:.1f} points (95% confidence interval), more than the {limit:g} allowed with "
        "the margin"
    )
    return "inconclusive", f"{change}, but {may}; {decide}"


def _exact(drop: float, n: int) -> float:
    """The largest drop, in points, if every item that changed was lost: the exact limit of that share.

    Where hardly an item changes, an interval of the mean is too narrow: 100 items without any change would pass a
    candidate that loses 3 of 100, one time of 20. Where others are won, the interval is the wider of the two.
    """
    lost = max(0, math.ceil(drop / 100 * n - EPSILON))
    return drop + 100 * (most_likely_share(lost, n) - lost / n)
