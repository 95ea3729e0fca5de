"""The gates fail closed: whatever the evidence, a pass means that all of it is there and good."""

import copy
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ft_assets.evals.evidence import BadEvidence, Evidence, SuiteEvidence, read_evidence
from ft_assets.evals.gates import GATES, Verdict, judge, passed, refuse
from ft_assets.recipes.acceptance import BenchmarkRegressionGate, GateSettings, TaskGainGate
from ft_resources.canonical import canonical_json
from tests.evals.world import SUITE, make_evidence, metric_evidence, suite_evidence

FINGERPRINT = "f" * 64
GATE_DEFAULTS = GateSettings()


def verdict(
    evidence: Evidence, gate: str, gates: GateSettings = GATE_DEFAULTS, suites: tuple[str, ...] = (SUITE,)
) -> Verdict:
    (found,) = (v for v in judge(evidence, gates, expected_fingerprint=FINGERPRINT, suites=suites) if v.gate == gate)
    return found


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
    make_evidence,
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
    evidence: Evidence, gates: GateSettings
) -> None:
    verdicts = judge(evidence, gates, expected_fingerprint=FINGERPRINT, suites=[SUITE])
    assert [v.gate for v in verdicts] == list(GATES)
    if not passed(verdicts):
        return
    assert evidence.fingerprint == FINGERPRINT
    suite, metric = evidence.suites[SUITE], evidence.holdout[gates.task_gain.metric]
    regression = gates.benchmark_regression
    assert 100 * (suite.base - suite.candidate) <= regression.max_drop_points + 1e-6
    assert -suite.interval_points[0] <= regression.max_drop_points + regression.margin_points + 1e-6
    assert metric.interval[0] > 0
    assert metric.improvement > 0
    assert metric.relative_gain is None or metric.relative_gain >= gates.task_gain.min_relative - 1e-6


@given(evidences, gate_settings)
def test_taking_anything_away_never_turns_into_a_pass(evidence: Evidence, gates: GateSettings) -> None:
    def passes(changed: Evidence) -> bool:
        return passed(judge(changed, gates, expected_fingerprint=FINGERPRINT, suites=[SUITE]))

    assert not passes(evidence.model_copy(update={"suites": {}}))
    assert not passes(evidence.model_copy(update={"holdout": {}}))
    assert not passes(evidence.model_copy(update={"fingerprint": "stale"}))
    assert not passed(judge(evidence, gates, expected_fingerprint=FINGERPRINT, suites=[]))
    assert not passed(judge(evidence, gates, expected_fingerprint=FINGERPRINT, suites=[SUITE, "missing.v1"]))


any_verdicts = st.builds(
    Verdict,
    gate=st.sampled_from([*GATES, "other"]),
    outcome=st.sampled_from(["pass", "fail", "inconclusive"]),
    reason=st.just(""),
)


@given(st.lists(any_verdicts, max_size=5))
def test_only_a_pass_of_every_gate_and_nothing_else_is_passed(verdicts: list[Verdict]) -> None:
    expected = {v.gate for v in verdicts} == set(GATES) and {v.outcome for v in verdicts} == {"pass"}
    assert passed(verdicts) == expected
    assert not passed(refuse("because"))


def numbers_in(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    if isinstance(value, dict):
        return [p for key, item in value.items() for p in numbers_in(item, (*path, key))]
    if isinstance(value, list):
        return [p for index, item in enumerate(value) for p in numbers_in(item, (*path, index))]
    return [path] if isinstance(value, int | float) and not isinstance(value, bool) else []


GOOD = make_evidence().model_dump(mode="json")


@given(st.sampled_from(numbers_in(GOOD)), st.sampled_from([math.nan, math.inf, -math.inf, None, "0.5", True]))
def test_evidence_with_any_number_spoilt_cannot_be_read(path: tuple[str | int, ...], spoilt: object) -> None:
    if (spoilt is None and path[-1] == "relative_gain") or (spoilt is True and path == ("version",)):
        return  # Both are read, and mean what they say.
    broken = copy.deepcopy(GOOD)
    place: Any = broken
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = spoilt
    with pytest.raises(BadEvidence, match="cannot be read as evidence"):
        read_evidence(json.dumps(broken).encode(), "report.json")


@given(st.sampled_from([path for path in numbers_in(GOOD) if path[0] in ("suites", "holdout")]), st.floats(0.01, 0.4))
def test_scores_that_contradict_their_difference_cannot_be_read(path: tuple[str | int, ...], shift: float) -> None:
    if path[-1] in ("n", "p_value") or isinstance(path[-1], int):
        return
    broken = copy.deepcopy(GOOD)
    place: Any = broken
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] += shift
    with pytest.raises(BadEvidence):
        read_evidence(json.dumps(broken).encode(), "report.json")


def test_an_interval_beside_its_difference_cannot_be_read() -> None:
    # A drop of 5 points whose interval claims a gain would be judged by the interval alone.
    report = make_evidence(suites={SUITE: suite_evidence(0.5, 0.49)}).model_dump(mode="json")
    report["suites"][SUITE]["interval_points"] = [3.0, 4.0]
    with pytest.raises(BadEvidence, match="interval contradicts"):
        read_evidence(json.dumps(report).encode(), "report.json")


def test_good_evidence_survives_being_written_and_read() -> None:
    evidence = make_evidence()
    assert read_evidence(canonical_json(evidence.model_dump(mode="json")), "x") == evidence
    assert passed(judge(evidence, GATE_DEFAULTS, expected_fingerprint=FINGERPRINT, suites=[SUITE]))
    with pytest.raises(BadEvidence):
        read_evidence(b"", "x")


def test_a_planted_regression_is_blocked_with_the_right_words() -> None:
    found = verdict(make_evidence(suites={SUITE: suite_evidence(0.535, 0.483)}), "benchmark_regression")
    assert found.outcome == "fail"
    assert found.reason == (
        "colours.v1: acc 53.5% → 48.3% on 1000 items, a drop of 5.2 points where at most 2 are allowed"
    )
    assert found.numbers[SUITE]["drop_points"] == pytest.approx(5.2)


def test_a_drop_of_exactly_the_limit_passes() -> None:
    assert (
        verdict(make_evidence(suites={SUITE: suite_evidence(0.52, 0.50, half=0.9)}), "benchmark_regression").outcome
        == "pass"
    )


def test_a_suite_too_small_to_tell_is_inconclusive_and_says_how_many_more_items_would_decide() -> None:
    small = make_evidence(suites={SUITE: suite_evidence(0.5, 0.49, half=6.0, n=100)})
    found = verdict(small, "benchmark_regression")
    assert found.outcome == "inconclusive"
    # The half width of 6 must shrink to 2 (the limit of 3 less the drop of 1): nine times the items.
    assert "about 800 more items would decide" in found.reason


def test_one_bad_suite_of_several_fails_the_gate_and_comes_first() -> None:
    both = make_evidence(suites={"good.v1": suite_evidence(), SUITE: suite_evidence(0.5, 0.4)})
    found = verdict(both, "benchmark_regression", suites=("good.v1", SUITE))
    assert found.outcome == "fail"
    assert found.reason.startswith(SUITE)
    assert set(found.numbers) == {"good.v1", SUITE}


def test_a_suite_that_was_not_scored_fails() -> None:
    assert verdict(make_evidence(suites={}), "benchmark_regression").reason == "colours.v1 was not scored"


@pytest.mark.parametrize(
    ("base", "candidate", "outcome", "words"),
    [
        (0.40, 0.42, "pass", "a gain of 5.0% relative"),
        (0.40, 0.41, "fail", "a gain of 2.5% relative where at least 5.0% is required"),
        (0.90, 0.91, "pass", "a gain of 10.0% of the remaining error"),
        (0.90, 0.904, "fail", "of the remaining error"),
        (1.0, 1.0, "fail", "no error left"),
        (0.0, 0.05, "pass", "from 0"),
        (0.0, 0.04, "fail", "at least 0.05"),
        (0.4, 0.3, "fail", "a gain of -25.0%"),
    ],
)
def test_the_required_gain_is_relative_of_the_remaining_error_or_a_floor(
    base: float, candidate: float, outcome: str, words: str
) -> None:
    found = verdict(make_evidence(holdout={"exact_match": metric_evidence(base, candidate, half=0.001)}), "task_gain")
    assert found.outcome == outcome
    assert words in found.reason


def test_perplexity_gains_by_falling() -> None:
    gates = GateSettings(task_gain=TaskGainGate(metric="perplexity", min_relative=0.1))
    better = make_evidence(holdout={"perplexity": metric_evidence(20.0, 15.0, half=1.0, higher=False)})
    worse = make_evidence(holdout={"perplexity": metric_evidence(15.0, 20.0, half=1.0, higher=False)})
    assert verdict(better, "task_gain", gates).outcome == "pass"
    assert verdict(worse, "task_gain", gates).outcome == "fail"


def test_a_gain_whose_interval_includes_zero_is_inconclusive_and_says_how_many_rows_would_decide() -> None:
    found = verdict(make_evidence(holdout={"exact_match": metric_evidence(0.2, 0.3, half=0.2, n=50)}), "task_gain")
    assert found.outcome == "inconclusive"
    assert "about 150 more rows would decide" in found.reason


def test_a_handful_of_rows_never_passes() -> None:
    found = verdict(make_evidence(holdout={"exact_match": metric_evidence(0.0, 1.0, half=0.0, n=3)}), "task_gain")
    assert found.outcome == "inconclusive"
    assert "7 more holdout rows" in found.reason


def test_a_gain_of_nothing_does_not_pass_even_where_nothing_is_required() -> None:
    gates = GateSettings(task_gain=TaskGainGate(metric="exact_match", min_relative=0.0))
    assert (
        verdict(make_evidence(holdout={"exact_match": metric_evidence(0.3, 0.3)}), "task_gain", gates).outcome == "fail"
    )


def test_a_suite_score_outside_its_range_is_no_evidence() -> None:
    with pytest.raises(ValidationError):
        SuiteEvidence(metric="acc", base=0.5, candidate=1.5, n=3, difference_points=100.0, interval_points=(0.0, 200.0))
