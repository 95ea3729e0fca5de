"""The regression gate passes only a drop that its items can rule out, however little they differ."""

import numpy as np
import pytest

from ft_assets.settings.catalogue.gates.regression import BenchmarkRegressionGate
from ft_assets.workers.evals.evidence import SuiteEvidence
from ft_assets.workers.evals.gate_regression import judge_suites
from ft_assets.workers.evals.paired_comparison import compare_suite
from ft_assets.workers.evals.power import most_likely_share, samples_to_see
from ft_assets.workers.evals.statistics import newcombe
from ft_assets.workers.evals.verdict import Verdict

GATE = BenchmarkRegressionGate()


def judged(base: np.ndarray, candidate: np.ndarray, seed: int = 0) -> Verdict:
    ids = [str(number) for number in range(len(base))]
    found = compare_suite("some.v1", "acc", (ids, base.tolist()), (ids, candidate.tolist()), seed=seed)
    return judge_suites({"some.v1": found}, GATE, ["some.v1"])


def judged_counts(both: int, lost: int, won: int, neither: int) -> Verdict:
    n = both + lost + won + neither
    low, high = newcombe(both, lost, won, neither)
    found = SuiteEvidence(
        metric="acc",
        base=(both + lost) / n,
        candidate=(both + won) / n,
        n=n,
        difference_points=100 * (won - lost) / n,
        interval_points=(100 * low, 100 * high),
    )
    return judge_suites({"some.v1": found}, GATE, ["some.v1"])


def test_no_result_on_50_items_passes_unless_the_candidate_is_better() -> None:
    for lost in range(51):
        for won in range(min(lost, 50 - lost) + 1):
            for both in range(0, 51 - lost - won, 7):
                assert judged_counts(both, lost, won, 50 - both - lost - won).outcome != "pass"


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_50_items_of_which_none_changes_prove_nothing_whether_scores_are_graded_or_not(value: float) -> None:
    same = np.full(50, 0.7)
    same[0] = value
    found = judged(same, same)
    assert found.outcome == "inconclusive"
    assert (
        "the drop may be up to 7.1 points (95% confidence interval), more than the 3 allowed with the margin"
        in found.reason
    )
    assert "about 72 more items would decide" in found.reason
    assert judged(np.full(122, 0.7), np.full(122, 0.7)).outcome == "pass"


@pytest.mark.parametrize("n", [50, 100])
def test_graded_candidates_that_lose_three_points_in_truth_hardly_ever_pass(n: int) -> None:
    """Four of 100 items fall by 0.8, which most samples of 50 show once or not at all."""
    random, passed = np.random.default_rng(5), 0
    for seed in range(40):
        base = random.uniform(0.8, 1.0, n)
        falls = random.random(n) < 0.0375
        passed += judged(base, np.where(falls, base - 0.8, base), seed).outcome == "pass"
    assert passed <= 2


def test_candidates_that_lose_three_points_and_win_none_pass_at_most_five_times_of_100() -> None:
    """Every number of lost items, weighed with its probability; the base solves 60 of 100."""
    for n in (50, 100, 150, 200, 250, 400, 1000):
        share, passes = 0.03, 0.0
        probability = (1 - share) ** n
        for lost in range(n // 40 + 1):
            both = round(0.6 * n) - lost
            passes += probability * (judged_counts(both, lost, 0, n - both - lost).outcome == "pass")
            probability *= (n - lost) / (lost + 1) * share / (1 - share)
        assert passes <= 0.05, n


def test_an_equal_candidate_passes_once_there_are_enough_items() -> None:
    assert judged_counts(75, 0, 0, 50).outcome == "pass"
    assert judged_counts(600, 20, 20, 360).outcome == "pass"


@pytest.mark.parametrize(("seen", "n", "most"), [(0, 50, 0.0711), (1, 50, 0.1065), (2, 200, 0.0357), (10, 100, 0.1762)])
def test_the_exact_limit_of_a_share_is_clopper_and_pearsons(seen: int, n: int, most: float) -> None:
    assert most_likely_share(seen, n) == pytest.approx(most, abs=5e-5)


def test_the_items_needed_are_the_fewest_that_rule_the_share_out() -> None:
    assert samples_to_see(0.03) == 122
    assert most_likely_share(0, 122) <= 0.03 < most_likely_share(0, 121)
    assert samples_to_see(0.0) is None
    assert most_likely_share(7, 7) == samples_to_see(1.0) == 1
