"""Bounds that may be looked at after every outcome: how often they err, and what they need to decide."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.rollouts.sequential import exceeds, log_capital, lower_bound, upper_bound

ERROR = 0.05
DIFFERENCES = st.lists(st.floats(-1, 1), min_size=1, max_size=60)


def test_nothing_is_shown_by_nothing() -> None:
    assert (lower_bound([], ERROR), upper_bound([], ERROR)) == (-1.0, 1.0)
    assert not exceeds([], 0.0, ERROR)


def test_capital_is_what_the_bets_of_the_paper_make_by_hand() -> None:
    # One stake of a half against a mean of at most 0: gains of 1 and -0.5 multiply it by 1.5 and 0.75.
    assert np.exp(log_capital([1.0, -0.5], 0.0, stakes=(0.5,))) == pytest.approx([1.5, 1.125])
    # Against a mean of at most 0.6 a difference of 1 pays 1.25 for 1.
    assert np.exp(log_capital([1.0], 0.6, stakes=(0.5,))) == pytest.approx([1.125])


def test_a_plain_difference_is_shown_within_some_dozens_and_none_within_a_few() -> None:
    assert upper_bound([-1.0] * 40, ERROR) < -0.5
    assert upper_bound([-1.0] * 5, ERROR) > 0
    assert lower_bound([0.0] * 400, ERROR) > -0.05


@given(DIFFERENCES, st.floats(-1, 1))
def test_bounds_never_widen_and_enclose_each_other(differences: list[float], more: float) -> None:
    low, high = lower_bound(differences, ERROR), upper_bound(differences, ERROR)
    longer = [*differences, more]
    # A look costs nothing: what was shown stays shown.
    assert lower_bound(longer, ERROR) >= low - 1e-3
    assert upper_bound(longer, ERROR) <= high + 1e-3
    assert lower_bound([-each for each in differences], ERROR) == -high
    assert lower_bound(differences, ERROR / 5) <= low


@given(DIFFERENCES, st.floats(-0.9, 0.8), st.floats(0.01, 0.1))
def test_capital_falls_with_the_claim_it_is_won_against(differences: list[float], claim: float, more: float) -> None:
    assert np.all(log_capital(differences, claim) >= log_capital(differences, claim + more) - 1e-9)


@pytest.mark.statistics
@pytest.mark.parametrize("rate", [0.02, 0.5, 0.9])
def test_a_true_mean_is_left_out_by_fewer_than_the_error_over_all_looks(rate: float) -> None:
    generator = np.random.default_rng(11)
    pairs = generator.random((2, 2_000, 1_500)) < rate
    capital = log_capital(pairs[0].astype(float) - pairs[1], 0.0)
    assert (capital.max(axis=1) >= -np.log(ERROR)).mean() <= ERROR
    # A test that is made for one look errs several times as often when it is repeated.
    differences = pairs[0].astype(float) - pairs[1]
    counts = np.arange(1, 1_501)
    means, squares = np.cumsum(differences, axis=1) / counts, np.cumsum(differences**2, axis=1) / counts
    errors = np.sqrt(np.maximum(squares - means**2, 1e-12) / counts)
    assert ((means / errors)[:, 100:] > 1.645).any(axis=1).mean() > 3 * ERROR
