import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.recipes.draw import draw
from ft_assets.settings.recipe.sweep import Range, SweepSettings

RATE, RANK = "training.learning_rate", "lora.rank"


def grid(**changes):
    return SweepSettings(search="grid", parameters={RATE: (1e-3, 1e-4), RANK: (4, 8, 16)}, **changes)


def test_a_grid_is_every_combination_in_the_order_written_and_more_than_the_limit_are_refused() -> None:
    assert [tuple(trial.values()) for trial in draw(grid(), 25)] == [
        (1e-3, 4),
        (1e-3, 8),
        (1e-3, 16),
        (1e-4, 4),
        (1e-4, 8),
        (1e-4, 16),
    ]
    with pytest.raises(ValueError, match="asks for 6 trials and the limit is 5"):
        draw(grid(), 5)
    many = {path: tuple(range(100)) for path in (RATE, RANK, "lora.alpha", "training.epochs", "training.max_steps")}
    with pytest.raises(ValueError, match="10,000,000,000 trials"):
        draw(SweepSettings(search="grid", parameters=many), 25)


low = st.floats(1e-6, 0.1)


@given(
    seed=st.integers(0, 2**31 - 1), trials=st.integers(2, 25), low=low, factor=st.floats(1.5, 100), log=st.booleans()
)
def test_random_draws_are_different_repeatable_and_within_their_range(seed, trials, low, factor, log) -> None:
    rate, rank = Range(low=low, high=low * factor, log=log), Range(low=2, high=64, log=log)
    sweep = SweepSettings(search="random", parameters={RATE: rate, RANK: rank}, trials=trials, seed=seed)
    drawn = draw(sweep, 25)
    assert drawn == draw(sweep, 25)
    assert len({repr(trial) for trial in drawn}) == trials
    for trial in drawn:
        assert rate.low <= trial[RATE] <= rate.high
        assert isinstance(trial[RANK], int)
        assert 2 <= trial[RANK] <= 64


def test_random_draws_go_on_reach_both_ends_and_each_order_of_magnitude_and_never_ask_for_more_than_there_is() -> None:
    """So a larger sweep of the same seed shares the trainings of the smaller one."""
    parameters = {RATE: Range(low=1e-5, high=1e-2, log=True)}
    few, more = (draw(SweepSettings(search="random", parameters=parameters, trials=n), 25) for n in (4, 9))
    assert more[:4] == few
    sweep = SweepSettings(search="random", parameters={RATE: Range(low=1e-6, high=1e-2, log=True)}, trials=400)
    below = sum(trial[RATE] < 1e-4 for trial in draw(sweep, 400))
    assert 150 < below < 250
    sweep = SweepSettings(search="random", parameters={RANK: Range(low=1, high=3)}, trials=3)
    assert sorted(trial[RANK] for trial in draw(sweep, 25)) == [1, 2, 3]
    sweep = SweepSettings(search="random", parameters={RANK: (4, 8)}, trials=3)
    with pytest.raises(ValueError, match="only 2 different trials"):
        draw(sweep, 25)


@pytest.mark.parametrize(
    ("problem", "fields"),
    [
        ("needs trials", {"search": "random", "parameters": {RANK: (4, 8)}}),
        ("leave trials out", {"search": "grid", "parameters": {RANK: (4, 8)}, "trials": 2}),
        ("a grid needs a list", {"search": "grid", "parameters": {RANK: Range(low=1, high=2)}}),
        ("lists a value twice", {"search": "grid", "parameters": {RANK: (4, 4)}}),
        ("should be below high", {"search": "random", "parameters": {RANK: {"low": 2, "high": 2}}, "trials": 2}),
        ("this large", {"search": "random", "parameters": {RANK: {"low": 1, "high": 10**400}}, "trials": 2}),
        ("this large", {"search": "random", "parameters": {RANK: {"low": 10**400, "high": 1}}, "trials": 2}),
        ("below 0", {"search": "random", "parameters": {RANK: {"low": -1, "high": 1}}, "trials": 2}),
        ("log needs low above 0", {"search": "random", "parameters": {RANK: {"low": 0, "high": 2, "log": True}}}),
    ],
)
def test_a_block_that_means_nothing_is_refused_with_a_sentence(problem: str, fields: dict) -> None:
    with pytest.raises(ValueError, match=problem):
        SweepSettings(**fields)
