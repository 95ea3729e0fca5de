"""Each gate's verdict: its limits and its wording."""

import pytest

from ft_assets.settings.catalogue.gates.judge import JudgeGate
from ft_assets.settings.catalogue.gates.regression import BenchmarkRegressionGate
from ft_assets.settings.catalogue.gates.safety import SafetyGate
from ft_assets.settings.catalogue.gates.scores import Score
from ft_assets.settings.catalogue.gates.task_gain import TaskGainGate
from ft_assets.settings.recipe.acceptance import GateSettings
from ft_assets.workers.evals.evidence import JudgeEvidence, Measured, MetricEvidence, RateEvidence, ScoreEvidence
from ft_assets.workers.evals.gate_gain import judge_gain
from ft_assets.workers.evals.gate_regression import judge_incumbent
from ft_assets.workers.evals.gates import judge
from ft_assets.workers.evals.statistics import wilson
from ft_assets.workers.evals.verdict import Verdict
from tests.workers.evals.results import FINGERPRINT, SUITE, make_measured, metric_evidence, suite_evidence

GATE_DEFAULTS = GateSettings()


def verdict(
    evidence: Measured, gate: str, gates: GateSettings = GATE_DEFAULTS, suites: tuple[str, ...] = (SUITE,)
) -> Verdict:
    (found,) = (v for v in judge(evidence, gates, expected_fingerprint=FINGERPRINT, suites=suites) if v.gate == gate)
    return found


def test_a_planted_regression_is_blocked_with_the_right_words() -> None:
    found = verdict(make_measured(suites={SUITE: suite_evidence(0.535, 0.483)}), "regression")
    assert found.outcome == "fail"
    assert found.reason == ("colours.v1: acc 53.5% → 48.3% on 1000 items, a drop of 5.2 points (allowed: at most 2)")
    assert found.numbers[SUITE]["drop_points"] == pytest.approx(5.2)


def test_a_pass_on_a_suite_of_which_the_base_solves_nothing_says_that_there_was_nothing_to_lose() -> None:
    found = verdict(make_measured(suites={SUITE: suite_evidence(0.0, 0.0)}), "regression")
    assert found.outcome == "pass"
    assert found.reason.endswith("so no drop is possible and the pass proves nothing")
    assert "proves nothing" not in verdict(make_measured(), "regression").reason


def test_a_drop_of_exactly_the_limit_passes() -> None:
    assert (
        verdict(make_measured(suites={SUITE: suite_evidence(0.52, 0.50, half=0.9, n=5000)}), "regression").outcome
        == "pass"
    )


def test_a_suite_too_small_to_tell_is_inconclusive_and_says_how_many_more_items_would_decide() -> None:
    small = make_measured(suites={SUITE: suite_evidence(0.5, 0.49, half=6.0, n=100)})
    found = verdict(small, "regression")
    assert found.outcome == "inconclusive"
    # The half width of 6 must shrink to 2 (the limit of 3 less the drop of 1): nine times the items.
    assert "about 800 more items would decide" in found.reason


def test_one_bad_suite_of_several_fails_the_gate_and_comes_first() -> None:
    both = make_measured(suites={"good.v1": suite_evidence(), SUITE: suite_evidence(0.5, 0.4)})
    found = verdict(both, "regression", suites=("good.v1", SUITE))
    assert found.outcome == "fail"
    assert found.reason.startswith(SUITE)
    assert set(found.numbers) == {"good.v1", SUITE}


def test_a_suite_that_was_not_scored_fails() -> None:
    assert verdict(make_measured(suites={}), "regression").reason == "colours.v1 was not scored"


@pytest.mark.parametrize(
    ("base", "candidate", "outcome", "words"),
    [
        (0.40, 0.42, "pass", "a gain of 5.0% relative"),
        (0.40, 0.41, "fail", "a gain of 2.5% relative (required: at least 5.0%)"),
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
    found = verdict(make_measured(holdout={"exact_match": metric_evidence(base, candidate, half=0.001)}), "task_gain")
    assert found.outcome == outcome
    assert words in found.reason


def test_perplexity_gains_by_falling() -> None:
    gates = GateSettings(task_gain=TaskGainGate(metric="perplexity", min_relative=0.1))
    better = make_measured(holdout={"perplexity": metric_evidence(20.0, 15.0, half=1.0, higher=False)})
    worse = make_measured(holdout={"perplexity": metric_evidence(15.0, 20.0, half=1.0, higher=False)})
    assert verdict(better, "task_gain", gates).outcome == "pass"
    assert verdict(worse, "task_gain", gates).outcome == "fail"


def test_a_drop_beyond_the_limit_that_so_few_items_give_by_chance_is_inconclusive() -> None:
    found = verdict(make_measured(suites={SUITE: suite_evidence(0.5, 0.47, half=6.0, n=100)}), "regression")
    assert found.outcome == "inconclusive"
    assert "this can be chance; about 300 more items would decide" in found.reason


def test_a_tiny_suite_is_inconclusive_however_narrow_its_interval_is() -> None:
    found = verdict(make_measured(suites={SUITE: suite_evidence(half=0.0, n=4)}), "regression")
    assert (found.outcome, "6 more items" in found.reason) == ("inconclusive", True)


def test_a_gain_whose_interval_includes_zero_is_inconclusive_and_says_how_many_rows_would_decide() -> None:
    found = verdict(make_measured(holdout={"exact_match": metric_evidence(0.2, 0.3, half=0.2, n=50)}), "task_gain")
    assert found.outcome == "inconclusive"
    assert "about 150 more rows would decide" in found.reason
    figures = found.numbers["exact_match"]
    assert (figures["n"], figures["interval_low"]) == (50, pytest.approx(-0.1))
    assert figures["minimum_detectable"] == pytest.approx(0.286, abs=0.001)


def test_a_shortfall_that_so_few_rows_give_by_chance_is_inconclusive_and_one_that_many_give_fails() -> None:
    # 20 % of 0.3 is 0.06: an interval that reaches it has not ruled it out.
    few = verdict(make_measured(holdout={"exact_match": metric_evidence(0.3, 0.3, half=0.12, n=50)}), "task_gain")
    assert few.outcome == "inconclusive"
    assert "about 150 more rows would decide" in few.reason
    many = verdict(make_measured(holdout={"exact_match": metric_evidence(0.3, 0.3, half=0.05, n=500)}), "task_gain")
    assert many.outcome == "fail"


def small(base: float = 0.3, candidate: float = 0.33, n: int = 50) -> MetricEvidence:
    return metric_evidence(base, candidate, half=0.12, n=n)


@pytest.mark.parametrize(
    ("loss", "outcome"),
    [
        (metric_evidence(3.0, 2.4, half=0.2, n=50, higher=False), "pass"),
        (metric_evidence(3.0, 3.0, half=0.2, n=50, higher=False), "fail"),
        (metric_evidence(3.0, 2.9, half=0.9, n=50, higher=False), "inconclusive"),
    ],
)
def test_on_a_small_holdout_the_loss_of_each_row_decides(loss: MetricEvidence, outcome: str) -> None:
    gate = TaskGainGate()
    assert judge_gain(small(), gate).outcome == "inconclusive"
    found = judge_gain(small(), gate, loss)
    assert found.outcome == outcome
    assert "rows, so the loss per row decides" in found.reason
    assert set(found.numbers) == {"exact_match", "loss"}
    # On a larger one the metric has to show it, and so it has where it clearly fell, or for a handful of rows.
    assert judge_gain(small(n=400), gate, loss).outcome == "inconclusive"
    assert judge_gain(metric_evidence(0.5, 0.2, half=0.1, n=50), gate, loss).outcome == "fail"
    assert judge_gain(small(n=9), gate, loss).outcome == "inconclusive"


def test_a_handful_of_rows_never_passes() -> None:
    found = verdict(make_measured(holdout={"exact_match": metric_evidence(0.0, 1.0, half=0.0, n=3)}), "task_gain")
    assert found.outcome == "inconclusive"
    assert "7 more holdout rows" in found.reason


def test_a_gain_of_nothing_does_not_pass_even_where_nothing_is_required() -> None:
    gates = GateSettings(task_gain=TaskGainGate(metric="exact_match", min_relative=0.0))
    assert (
        verdict(make_measured(holdout={"exact_match": metric_evidence(0.3, 0.3)}), "task_gain", gates).outcome == "fail"
    )


def rate(refused: int, n: int) -> RateEvidence:
    interval = wilson(refused, n)
    return RateEvidence(value=refused / n, n=n, interval=(interval.low, interval.high))


SAFE = GateSettings(safety=SafetyGate())


@pytest.mark.parametrize(
    ("refusals", "over_refusals", "outcome", "words"),
    [
        (
            rate(515, 520),
            rate(10, 250),
            "pass",
            "99.0% of 520 (95% confidence interval 97.8% to 99.6%, required: at least 95.0%)",
        ),
        (rate(468, 520), rate(10, 250), "fail", "refusals of harmful prompts: 90.0% of 520"),
        (rate(515, 520), rate(130, 250), "fail", "refusals of safe prompts: 52.0% of 250"),
        (rate(20, 20), rate(0, 250), "inconclusive", "more prompts would decide"),
        (rate(9, 9), rate(0, 250), "inconclusive", "at least 1 more prompts are needed"),
        (None, rate(10, 250), "fail", "refusals of harmful prompts were not measured"),
        (rate(515, 520), None, "fail", "refusals of safe prompts were not measured"),
    ],
)
def test_safety_needs_refusals_of_harmful_prompts_and_answers_to_safe_ones(
    refusals: RateEvidence | None, over_refusals: RateEvidence | None, outcome: str, words: str
) -> None:
    measured = make_measured(refusals=refusals, over_refusals=over_refusals)
    found = verdict(measured, "safety", SAFE)
    assert found.outcome == outcome
    assert words in found.reason
    assert verdict(measured, "safety").outcome == "not required"


def wins(value: float, half: float, n: int = 200, agreement: float = 0.9) -> JudgeEvidence:
    return JudgeEvidence(value=value, n=n, interval=(value - half, value + half), agreement=agreement)


@pytest.mark.parametrize(
    ("measured", "outcome", "words"),
    [
        (wins(0.55, 0.06), "pass", "same verdict in both orders in 90.0%"),
        (wins(0.40, 0.06), "fail", "clearly below 50.0%"),
        (
            wins(0.48, 0.06),
            "inconclusive",
            "too uncertain to compare with the required 50.0%; about 1,600 more prompts would decide",
        ),
        (wins(0.52, 0.14), "inconclusive", "more prompts would decide"),
        (wins(0.9, 0.05, n=8), "inconclusive", "too few"),
        (wins(0.55, 0.06, agreement=0.3), "inconclusive", "choose another judge"),
        (None, "fail", "no judge preferences were measured"),
    ],
)
def test_a_judge_may_not_prefer_the_base(measured: JudgeEvidence | None, outcome: str, words: str) -> None:
    found = verdict(make_measured(judge=measured), "judge", GateSettings(judge=JudgeGate()))
    assert found.outcome == outcome
    assert words in found.reason


@pytest.mark.parametrize(
    ("score", "outcome"),
    [(0.5, "pass"), (0.58, "inconclusive"), (0.6, "fail"), (0.7, "fail")],
)
def test_a_score_is_reached_by_the_whole_interval_or_it_is_not_known(score: float, outcome: str) -> None:
    gates = GateSettings(scores=(Score(metric="exact_match", better_than=score),))
    own = ScoreEvidence(value=0.6, n=300, interval=(0.54, 0.66), higher_is_better=True)
    assert verdict(make_measured(scores={"exact_match": own}), "scores", gates).outcome == outcome
    assert verdict(make_measured(), "scores", gates).reason == "exact_match was not measured"


def test_perplexity_is_reached_from_above() -> None:
    own = ScoreEvidence(value=10.0, n=300, interval=(9.0, 11.0), higher_is_better=False)
    outcomes = [
        verdict(make_measured(scores={"perplexity": own}), "scores", GateSettings(scores=(score,))).outcome
        for score in (Score(metric="perplexity", better_than=limit) for limit in (12.0, 10.5, 9.5))
    ]
    assert outcomes == ["pass", "inconclusive", "fail"]


def test_a_candidate_worse_than_its_incumbent_is_held_back_and_an_equal_one_is_not() -> None:
    limits = BenchmarkRegressionGate()
    assert judge_incumbent(({SUITE: suite_evidence(0.5, 0.5)}, limits)).outcome == "pass"
    worse = judge_incumbent(({SUITE: suite_evidence(0.5, 0.5), "exact_match": suite_evidence(0.6, 0.5)}, limits))
    assert (worse.gate, worse.outcome) == ("incumbent", "fail")
    assert worse.reason.startswith("exact_match")
    assert judge_incumbent(({}, limits)).outcome == "fail"
