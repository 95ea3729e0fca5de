"""A sweep recipe draws its trials and registers them with itself, or nothing at all."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.auto.resolve import resolve
from ft_assets.control.recipes.draw import draw
from ft_assets.control.recipes.stored import get_recipe, list_recipes
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.submissions.submit import check_wish
from ft_assets.settings.recipe.sweep import Range, SweepSettings
from ft_resources.errors import BadRecipe, UserError
from tests.control.registry.conftest import contents

Write = Callable[..., Path]
TRIALS = ("rates-t01.v1", "rates-t02.v1", "rates-t03.v1")


def test_each_trial_is_an_ordinary_recipe_on_the_sweeps_base_that_cannot_be_asked_for_by_itself(
    store, write_sweep
) -> None:
    registered = register_recipe(store, write_sweep(), actor="ann")
    assert registered.trials == TRIALS
    sweep = get_recipe(store, "rates.v1")
    assert [trial.key for trial in sweep.trials] == list(TRIALS)
    for number, (key, rate) in enumerate(zip(TRIALS, (1e-3, 1e-4, 1e-5), strict=True), start=1):
        stored = get_recipe(store, key)
        assert stored.recipe.sweep is None
        assert stored.recipe.training.learning_rate == rate
        assert stored.lock == sweep.lock
        assert stored.trial is not None
        assert (stored.trial.sweep, stored.trial.number) == ("rates.v1", number)
        assert stored.trial.values == {"training.learning_rate": rate}
        assert resolve(stored.recipe)[1]["training.learning_rate"] == "recipe"
        assert stored.recipe.token_settings() == sweep.recipe.token_settings()
    register_recipe(store, write_sweep(), actor="ann")
    store.put_json("names/dataset/acme.things.v1.json", {})
    check_wish(store, "acme.things.v1", "rates.v1")
    with pytest.raises(UserError, match="only a sweep's winner is scored"):
        check_wish(store, "acme.things.v1", "rates-t01.v1")


def test_registering_again_changes_nothing_heals_what_died_half_way_and_refuses_another_sweep(
    store, write_sweep
) -> None:
    path = write_sweep()
    register_recipe(store, path, actor="ann")
    before = contents(store)
    for key in TRIALS[1:]:
        store.delete(f"names/recipe/{key}.json")
    again = register_recipe(store, path, actor="ann")
    assert (again.created, again.trials) == (False, TRIALS)
    after = contents(store)
    assert after.keys() == before.keys()
    assert get_recipe(store, TRIALS[2]).recipe.training.learning_rate == 1e-5
    register_recipe(store, write_sweep(), actor="ann")
    other = {"search": "grid", "parameters": {"training.learning_rate": [1e-3, 1e-4]}}
    with pytest.raises(BadRecipe, match="differs in sweep"):
        register_recipe(store, write_sweep(sweep=other), actor="ann")
    with pytest.raises(BadRecipe, match=r"differs in .*sweep"):
        register_recipe(store, write_sweep(sweep=None), actor="ann")


@pytest.mark.parametrize(
    ("problem", "changes"),
    [
        ("'training.learning_rat' cannot be swept; did you mean 'learning_rate'", {"training.learning_rat": [1, 2]}),
        ("'packing.max_length' cannot be swept; known here: lora.alpha", {"packing.max_length": [64, 128]}),
        ("training.seed cannot be swept: it also packs the tokens", {"training.seed": [1, 2]}),
        ("preference.beta cannot be swept: it is part of the loss", {"preference.beta": [0.1, 0.2]}),
        ("training.recompute cannot be swept: it does not change", {"training.recompute": ["on", "off"]}),
        (r"trial 2 \(training.learning_rate 2\)", {"training.learning_rate": [0.1, 2]}),
        (
            r"trial 1 \(training.global_batch_size 4, training.micro_batch_size 3\): training: micro_batch",
            {"training.micro_batch_size": [3, 2], "training.global_batch_size": [4]},
        ),
        (r"trial 2 \(lora.rank -4\)", {"lora.rank": [4, -4]}),
    ],
)
def test_what_cannot_be_tried_is_named_and_nothing_is_stored(store, write_sweep, problem, changes) -> None:
    before = contents(store)
    path = write_sweep(sweep={"search": "grid", "parameters": changes})
    with pytest.raises(BadRecipe, match=problem):
        register_recipe(store, path, actor="ann")
    assert contents(store) == before


@pytest.mark.parametrize(
    ("problem", "changes"),
    [
        ("'a{37}' is too long for a sweep", {"key": f"{'a' * 37}.v1"}),
        ("swept and also set in the recipe", {"training": {"learning_rate": 1e-3}}),
        (
            r"trial 1 \(lora.rank 4\) and trial 2 \(lora.rank 8\) are the same training",
            {"variant": "full", "sweep": {"search": "grid", "parameters": {"lora.rank": [4, 8]}}},
        ),
        (
            "has 30 trials; the limit is 25",
            {"sweep": {"search": "grid", "parameters": {"lora.rank": list(range(1, 31))}}},
        ),
    ],
)
def test_a_sweep_that_cannot_be_laid_out_is_refused_whole(store, write_sweep, problem, changes) -> None:
    before = contents(store)
    path = write_sweep(**changes)
    with pytest.raises(BadRecipe, match=problem.replace("a{37}", "a" * 37)):
        register_recipe(store, path, actor="ann")
    assert contents(store) == before


def test_a_trial_never_takes_the_place_of_another_recipe_nor_gives_it(store, write_sweep, write_recipe) -> None:
    register_recipe(store, write_recipe(key="rates-t02.v1"), actor="ann")
    before = contents(store)
    with pytest.raises(BadRecipe, match=r"would have the trial rates-t02.v1"):
        register_recipe(store, write_sweep(), actor="ann")
    assert contents(store) == before
    register_recipe(store, write_sweep(key="acme.rates.v1"), actor="ann")
    with pytest.raises(BadRecipe, match=r"trial 2 of the sweep acme.rates.v1"):
        register_recipe(store, write_recipe(key="acme.rates-t02.v1"), actor="ann")


def test_a_mark_in_the_file_is_an_unknown_key_and_a_recipe_without_a_sweep_says_nothing_of_sweeps(
    store, write_recipe
) -> None:
    with pytest.raises(BadRecipe, match="trial: unknown key"):
        register_recipe(store, write_recipe(trial={"sweep": "rates.v1", "number": 1, "values": {}}), actor="ann")
    assert list_recipes(store) == []
    # Its digest, and so all that stands on it, is what it was before there were sweeps.
    register_recipe(store, write_recipe(), actor="ann")
    record = store.get_json("names/recipe/tiny.v1.json")
    assert "sweep" not in record["recipe"]
    assert not {"trials", "trial"} & record.keys()


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
    with pytest.raises(ValueError, match="has 6 trials; the limit is 5"):
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
        ("a value is listed twice", {"search": "grid", "parameters": {RANK: (4, 4)}}),
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
