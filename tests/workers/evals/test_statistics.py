"""The statistics, compared with slow and simple definitions."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.workers.evals.power import Z, minimum_detectable, samples_to_decide
from ft_assets.workers.evals.statistics import (
    contingency,
    mcnemar_exact,
    newcombe,
    paired_interval,
    sign_flip_p,
    studentized,
    wilson,
)

tables = st.tuples(*[st.integers(0, 60)] * 4).filter(lambda table: sum(table) > 0)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilsons_ends_are_the_shares_that_a_score_test_just_does_not_reject(case: tuple[int, int]) -> None:
    successes, n = case
    interval, share = wilson(successes, n), successes / n
    assert 0 <= interval.low <= share <= interval.high <= 1
    for end in (interval.low, interval.high):
        if 1e-12 < end < 1 - 1e-12:
            assert abs(share - end) == pytest.approx(Z * math.sqrt(end * (1 - end) / n), rel=1e-6)


@given(st.integers(0, 10), st.integers(0, 10))
def test_mcnemar_is_the_share_of_coin_sequences_as_lopsided_as_the_observed_one(first: int, second: int) -> None:
    n = first + second
    lopsided = abs(first - second)
    coins = itertools.product((1, -1), repeat=n) if n <= 12 else None
    if coins is None:
        return
    share = sum(abs(sum(coin)) >= lopsided for coin in coins) / 2**n
    assert mcnemar_exact(first, second) == pytest.approx(share)


def test_mcnemar_does_not_overflow_on_a_hundred_thousand_pairs() -> None:
    assert mcnemar_exact(50_000, 50_000) == 1.0
    assert 0 < mcnemar_exact(47_000, 53_000) < 1e-60


@given(tables)
def test_newcombe_holds_the_difference_never_vanishes_and_mirrors_when_the_models_swap(
    table: tuple[int, int, int, int],
) -> None:
    both, first, second, neither = table
    interval = newcombe(both, first, second, neither)
    difference = (second - first) / sum(table)
    assert -1 - 1e-9 <= interval.low <= difference <= interval.high <= 1 + 1e-9
    assert interval.high - interval.low > 0
    mirrored = newcombe(both, second, first, neither)
    assert (mirrored.low, mirrored.high) == pytest.approx((-interval.high, -interval.low))


def test_a_few_agreeing_pairs_do_not_prove_that_nothing_changed() -> None:
    assert newcombe(5, 0, 0, 0).low < -0.3
    assert newcombe(3, 0, 0, 3).low < -0.1
    assert newcombe(500, 0, 0, 500).low > -0.005


@pytest.mark.parametrize(("gains", "losses"), [(0.05, 0.05), (0.02, 0.1), (0.0, 0.01)])
def test_newcombe_covers_the_true_difference_about_as_often_as_it_says(gains: float, losses: float) -> None:
    random = np.random.default_rng(5)
    share_both = 0.45
    tables = random.multinomial(300, [share_both, losses, gains, 1 - share_both - gains - losses], size=2000)
    intervals = [newcombe(*map(int, table)) for table in tables]
    covered = np.mean([i.low <= gains - losses <= i.high for i in intervals])
    assert 0.93 <= covered <= 1.0


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=9).filter(lambda values: any(abs(v) > 1e-3 for v in values)))
def test_sign_flips_agree_with_trying_every_sign(values: list[float]) -> None:
    observed = abs(math.fsum(values))
    every = [
        abs(math.fsum(sign * value for sign, value in zip(signs, values, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(values))
    ]
    exact = sum(total >= observed * (1 - 1e-12) for total in every) / len(every)
    assert sign_flip_p(values, seed=1) == pytest.approx(exact, abs=0.04)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=50), st.integers(0, 99))
def test_intervals_of_right_and_wrong_answers_are_newcombes_whatever_the_seed(
    pairs: list[tuple[bool, bool]], seed: int
) -> None:
    first, second = zip(*pairs, strict=True)
    table = contingency(np.array(first, float), np.array(second, float))
    assert sum(table) == len(pairs)
    assert paired_interval(np.array(first, float), np.array(second, float), seed=seed) == newcombe(*table)


def test_the_bootstrap_is_seeded_and_agrees_with_the_normal_interval_on_many_samples() -> None:
    values = np.random.default_rng(3).normal(0.3, 1.0, 4000)
    ones = np.ones(4000)
    interval = studentized(values, ones, seed=7)
    assert interval == studentized(values, ones, seed=7)
    half = 1.96 * values.std() / math.sqrt(len(values))
    assert interval.low == pytest.approx(values.mean() - half, abs=0.004)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.004)


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.integers(1, 9)), min_size=1, max_size=30),
)
def test_the_bootstraps_interval_is_finite_and_holds_the_ratio(rows: list[tuple[float, int]]) -> None:
    parts, weights = zip(*rows, strict=True)
    interval = studentized(parts, weights, seed=1)
    assert math.isfinite(interval.low)
    assert math.isfinite(interval.high)
    assert interval.low - 1e-9 <= sum(parts) / sum(weights) <= interval.high + 1e-9


def test_skewed_losses_of_few_rows_give_no_false_gain_more_often_than_the_interval_says() -> None:
    """Most rows a little better, a few much worse, none on average: a percentile interval errs 1 time in 9."""
    random = np.random.default_rng(11)
    claims = 0
    for seed in range(300):
        base = random.gamma(2, 1.0, 50)
        change = base * np.where(random.random(50) < 0.1, -0.45, 0.05)
        claims += studentized(change, np.ones(50), seed=seed).low > 0
    assert claims / 300 < 0.085


def test_what_is_not_a_pair_of_finite_scores_is_refused() -> None:
    with pytest.raises(ValueError, match="not pairs"):
        paired_interval([1.0], [1.0, 0.0], seed=1)
    with pytest.raises(ValueError, match="not pairs"):
        paired_interval([], [], seed=1)
    with pytest.raises(ValueError, match="finite"):
        paired_interval([1.0], [float("nan")], seed=1)


@given(st.integers(1, 10_000), st.floats(0.001, 1), st.floats(0.001, 1))
def test_the_samples_asked_for_would_narrow_the_interval_to_the_room(n: int, half: float, room: float) -> None:
    needed = samples_to_decide(n, half, room)
    assert needed is not None
    assert needed > n
    assert half * math.sqrt(n / needed) <= room * (1 + 1e-9)


def test_without_room_no_number_of_samples_decides() -> None:
    assert samples_to_decide(100, 0.1, 0.0) is None


def test_the_detectable_effect_is_the_half_width_and_the_power_on_top() -> None:
    assert minimum_detectable(1.96) == pytest.approx(2.80, abs=0.01)
