"""The gates fail closed: a pass means that all evidence is there and good."""

from hypothesis import given
from hypothesis import strategies as st

from ft_assets.settings.catalogue.gates import GATES, WAIVABLE
from ft_assets.settings.catalogue.gates.regression import BenchmarkRegressionGate
from ft_assets.settings.catalogue.gates.task_gain import TaskGainGate
from ft_assets.settings.recipe.acceptance import GateSettings
from ft_assets.workers.evals.evidence import Measured
from ft_assets.workers.evals.gates import judge, passed, refuse
from ft_assets.workers.evals.verdict import Verdict, Waiver
from tests.workers.evals.results import FINGERPRINT, SUITE, make_measured, metric_evidence, suite_evidence

shares = st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)
suites = st.builds(suite_evidence, shares, shares, half=st.floats(0, 20), n=st.integers(1, 5000))
answers = st.builds(metric_evidence, shares, shares, half=st.floats(0, 1), n=st.integers(1, 5000))
perplexities = st.builds(
    metric_evidence,
    st.floats(1, 500),
    st.floats(1, 500),
    half=st.floats(0, 50),
    n=st.integers(1, 5000),
    higher=st.just(False),
)
evidences = st.builds(
    make_measured,
    fingerprint=st.sampled_from([FINGERPRINT, "0" * 64]),
    suites=st.dictionaries(st.sampled_from([SUITE, "other.v1"]), suites),
    holdout=st.fixed_dictionaries({}, optional={"exact_match": answers, "perplexity": perplexities}),
)
gate_settings = st.builds(
    GateSettings,
    benchmark_regression=st.builds(
        BenchmarkRegressionGate, max_drop_points=st.floats(0, 10), margin_points=st.floats(0, 10)
    ),
    task_gain=st.builds(
        TaskGainGate, metric=st.sampled_from(["exact_match", "perplexity"]), min_relative=st.floats(0, 1)
    ),
)


@given(evidences, gate_settings)
def test_a_pass_means_that_everything_is_there_belongs_here_and_is_good(
    evidence: Measured, gates: GateSettings
) -> None:
    verdicts = judge(evidence, gates, expected_fingerprint=FINGERPRINT, suites=[SUITE])
    assert [v.gate for v in verdicts] == list(GATES)
    assert {v.outcome for v in verdicts[2:]} <= {"not required", "fail"}
    if not passed(verdicts):
        return
    assert evidence.fingerprint == FINGERPRINT
    suite, metric = evidence.suites[SUITE], evidence.holdout[gates.task_gain.metric]
    regression = gates.benchmark_regression
    assert 100 * (suite.base - suite.candidate) <= regression.max_drop_points + 1e-6
    assert -suite.interval_points[0] <= regression.max_drop_points + regression.margin_points + 1e-6
    # No loss of the rows is given here, so the metric itself has to show it.
    assert metric.interval[0] > 0
    assert metric.improvement > 0
    assert metric.relative_gain is None or metric.relative_gain >= gates.task_gain.min_relative - 1e-6
    assert min(metric.n, suite.n) >= 10


@given(evidences, gate_settings)
def test_taking_anything_away_never_turns_into_a_pass(evidence: Measured, gates: GateSettings) -> None:
    def passes(changed: Measured) -> bool:
        return passed(judge(changed, gates, expected_fingerprint=FINGERPRINT, suites=[SUITE]))

    assert not passes(evidence.model_copy(update={"suites": {}}))
    assert not passes(evidence.model_copy(update={"holdout": {}}))
    assert not passes(evidence.model_copy(update={"fingerprint": "stale"}))
    assert not passed(judge(evidence, gates, expected_fingerprint=FINGERPRINT, suites=[]))
    assert not passed(judge(evidence, gates, expected_fingerprint=FINGERPRINT, suites=[SUITE, "missing.v1"]))


any_verdicts = st.builds(
    Verdict,
    gate=st.sampled_from([*GATES, "other"]),
    outcome=st.sampled_from(["pass", "pass", "fail", "inconclusive", "not required"]),
    reason=st.just(""),
    waiver=st.sampled_from([None, Waiver(actor="ann", note="x", at="now")]),
)


@given(st.lists(any_verdicts, max_size=7))
def test_only_verdicts_on_every_gate_that_let_through_are_passed(verdicts: list[Verdict]) -> None:
    outcomes = {verdict.gate: verdict.outcome for verdict in verdicts}
    good = {"pass": True, "not required": True, "fail": False}
    let = [good.get(v.outcome, v.waiver is not None and v.gate in WAIVABLE) for v in verdicts]
    always = all(outcomes.get(gate) != "not required" for gate in ("regression", "task_gain"))
    if passed(verdicts):
        assert set(outcomes) == set(GATES)
        assert all(let)
        assert all(v.waiver is None or v.gate in WAIVABLE for v in verdicts)
        assert len(verdicts) > len(GATES) or always
    assert not passed(refuse("because"))
    assert not passed([])


def test_a_waiver_lets_an_inconclusive_gain_through_and_nothing_else() -> None:
    waiver = Waiver(actor="ann", note="all rows there are", at="2026-01-01T00:00:00+00:00")
    good = judge(make_measured(), GateSettings(), expected_fingerprint=FINGERPRINT, suites=[SUITE])

    def lets(gate: str, outcome: str, waived: bool) -> bool:
        changed = {"outcome": outcome, "waiver": waiver if waived else None}
        return passed([v.model_copy(update=changed) if v.gate == gate else v for v in good])

    assert lets("task_gain", "inconclusive", True)
    assert lets("judge", "inconclusive", True)
    assert not lets("task_gain", "inconclusive", False)
    assert not lets("task_gain", "fail", True)
    for gate in ("safety", "regression", "scores"):
        assert not lets(gate, "inconclusive", True)
    for gate in ("task_gain", "regression"):
        assert not lets(gate, "not required", False)
