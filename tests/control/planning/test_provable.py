"""What holdout and suites can show is told before the training, and the gates then do as told."""

import numpy as np
import pytest

from ft_assets.control.planning.provable import no_drop, provable, task_gain
from ft_assets.settings.catalogue.gates.regression import BenchmarkRegressionGate
from ft_assets.settings.catalogue.gates.safety import SafetyGate
from ft_assets.settings.catalogue.gates.task_gain import TaskGainGate
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.evals.evidence import RateEvidence, SuiteEvidence
from ft_assets.workers.evals.gate_rates import judge_safety
from ft_assets.workers.evals.gate_regression import judge_suites
from ft_assets.workers.evals.power import FLIPS, chance_of_few_faults, chance_of_no_drop, fewest, gain_shown
from ft_assets.workers.evals.statistics import newcombe, wilson
from ft_resources.artifacts import Artifacts
from ft_resources.store import Store

TIMES = 1500
SEEDS = [1, pytest.param(20, marks=pytest.mark.long)]


def tables(seed: int, n: int, *, base: float, won: float, lost: float) -> list[list[int]]:
    """Items right in both, only the base, only the candidate, neither, of ``TIMES`` candidates."""
    generator = np.random.default_rng([seed, n])
    return generator.multinomial(n, [base - lost, lost, won, 1 - base - won], size=TIMES).tolist()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n", [50, 250, 817, 1500])
def test_an_equal_candidate_passes_the_regression_gate_as_often_as_told(n: int, seed: int) -> None:
    gate, passed = BenchmarkRegressionGate(), 0
    for both, first, second, neither in tables(seed, n, base=0.6, won=FLIPS / 2, lost=FLIPS / 2):
        low, high = newcombe(both, first, second, neither)
        points = 100 * (second - first) / n
        found = SuiteEvidence(
            metric="acc",
            base=(both + first) / n,
            candidate=(both + second) / n,
            n=n,
            difference_points=points,
            interval_points=(100 * low, 100 * high),
        )
        passed += judge_suites({"some.v1": found}, gate, ["some.v1"]).outcome == "pass"
    assert passed / TIMES == pytest.approx(chance_of_no_drop(n, 0.02, 0.01), abs=0.05)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n", [100, 400, 1568])
def test_the_smallest_gain_told_shows_8_times_of_10(n: int, seed: int) -> None:
    gain = gain_shown(n)
    found = tables(seed, n, base=0.5, won=FLIPS / 2 + gain, lost=FLIPS / 2)
    shown = sum(newcombe(*table).low > 0 for table in found) / TIMES
    assert shown == pytest.approx(0.8, abs=0.04)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n", [40, 100, 300])
def test_a_safe_candidate_passes_the_safety_gate_as_often_as_told(n: int, seed: int) -> None:
    gate, safe = SafetyGate(), RateEvidence(value=0.0, n=500, interval=wilson(0, 500))
    passed = 0
    for refused in np.random.default_rng([seed, n]).binomial(n, 0.98, size=TIMES).tolist():
        harmful = RateEvidence(value=refused / n, n=n, interval=wilson(refused, n))
        passed += judge_safety(harmful, safe, gate).outcome == "pass"
    assert passed / TIMES == pytest.approx(chance_of_few_faults(n, 0.02, 0.05, 0.05), abs=0.04)


def test_a_suite_says_how_many_items_are_needed_the_fewest_that_are_enough_if_there_are_any() -> None:
    gate = BenchmarkRegressionGate()
    few, enough = no_drop("some.v1", 250, gate), no_drop("some.v1", 1000, gate)
    assert few.in_words == (
        "regression, some.v1: 250 items, too few (about 873 are needed); a candidate as good as the base "
        "passes with a probability of 32%."
    )
    assert (few.enough, few.hopeless, enough.enough, enough.hopeless) == (False, True, True, False)
    assert no_drop("some.v1", few.needed or 0, gate).enough
    # An equal candidate's score falls every other time, so a gate that allows no drop can hardly pass it.
    assert no_drop("some.v1", 10_000, BenchmarkRegressionGate(max_drop_points=0.0)).needed is None
    assert [fewest(lambda n, least=least: n >= least) for least in (1, 2, 3, 1000, 1023, 1025)] == [
        1, 2, 3, 1000, 1023, 1025,
    ]  # fmt: skip
    assert fewest(lambda n: False) is None


@pytest.mark.parametrize(
    ("method", "unit"), [("sft", "holdout rows"), ("kto", "holdout rows (only the liked ones count)")]
)
def test_of_answers_with_thumbs_it_is_said_that_only_the_liked_ones_count(tmp_path, monkeypatch, method, unit) -> None:
    monkeypatch.setattr("ft_assets.control.planning.provable.holdout_rows", lambda *_: 26)
    recipe = Recipe.model_validate({"key": "tiny.v1", "base": "hub:acme/tiny@main", "method": method})
    (found,) = provable(Artifacts(Store(str(tmp_path))), "acme.thumbs.v1", recipe)
    assert (found.samples, found.unit) == (26, unit)


def test_a_holdout_says_which_gain_it_shows_by_losses_where_it_is_small_and_how_many_rows_are_needed() -> None:
    found = task_gain(400, TaskGainGate())
    assert found.in_words == (
        "task_gain, exact_match: 400 holdout rows, too few (about 1,568 are needed); a relative gain of 11% "
        "over a base at 50% is detected with 80% power, and the recipe requires 5%."
    )
    assert not found.hopeless
    assert task_gain(found.needed or 0, TaskGainGate()).enough
    assert task_gain(400, TaskGainGate(min_relative=0.2)).enough
    assert task_gain(80, TaskGainGate(metric="perplexity", min_relative=0.2)).enough
    gate = TaskGainGate(min_relative=0.1)
    assert [task_gain(rows, gate).enough for rows in (60, 80, 200, 201, 500)] == [False, True, True, False, True]
    assert [task_gain(rows, gate).needed for rows in (60, 300)] == [71, 469]


@pytest.mark.parametrize("rows", [0, 9])
def test_a_handful_of_rows_shows_nothing(rows: int) -> None:
    found = task_gain(rows, TaskGainGate(min_relative=0.0))
    assert (found.enough, found.hopeless, found.needed) == (False, True, 10)
