"""A base bump's plan, over every way its dependents can stand."""

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.base_bumps.bump import Dependent
from ft_assets.control.base_bumps.plan import ENDS, Progress, Standing, Step, plan_bump
from ft_resources.artifacts import InputRef
from ft_resources.canonical import digest


def dependent(number: int) -> Dependent:
    ref = InputRef(address=f"acme/adapter/{number}", digest=digest(number))
    return Dependent(dataset=f"acme.d{number}.v1", recipe="tiny.v1", adapter=ref, checkpoint=ref)


def standing(number: int, **changes: object) -> Standing:
    return Standing(dependent=dependent(number), **changes)  # type: ignore[arg-type]


progress = st.sampled_from(Progress)
many = st.lists(
    st.builds(dict, carriable=st.booleans(), carry=progress, training=progress, deleted=st.booleans()), max_size=12
).map(lambda drawn: [standing(number, **each) for number, each in enumerate(drawn)])
limits = st.integers(0, 6)


@given(many, limits, limits)
def test_no_limit_is_passed_and_nothing_is_submitted_twice(standings: list[Standing], free: int, budget: int) -> None:
    plan = plan_bump(standings, most_open=free, budget=budget)
    carrying = sum(each.step is Step.CARRYING for each in standings)
    assert len(plan.carry) <= max(0, free - carrying)
    assert len(plan.retrain) <= budget
    submitted = [*plan.carry, *plan.retrain]
    assert len(submitted) == len({each.dataset for each in submitted})
    asked = {each.dependent.dataset: each for each in standings}
    for each in plan.carry:
        assert asked[each.dataset].carry is asked[each.dataset].training is Progress.NONE
    for each in submitted:
        assert not asked[each.dataset].deleted
        assert asked[each.dataset].training is Progress.NONE
        assert Progress.PASSED not in (asked[each.dataset].carry, asked[each.dataset].training)


@given(many, limits, limits, st.randoms())
def test_the_order_does_not_count(standings: list[Standing], free: int, budget: int, chance: random.Random) -> None:
    mixed = list(standings)
    chance.shuffle(mixed)
    assert plan_bump(mixed, most_open=free, budget=budget) == plan_bump(standings, most_open=free, budget=budget)


@given(many, st.integers(1, 6), st.integers(1, 6), st.randoms())
def test_every_bump_ends_within_its_limits_and_a_repeated_tick_submits_nothing(standings, free, budget, chance) -> None:
    state = {each.dependent.dataset: each for each in standings}
    for _ in range(200):
        plan = plan_bump(state.values(), most_open=free, budget=budget)
        if plan.over:
            break
        for each in plan.carry:
            state[each.dataset] = replace(state[each.dataset], carry=Progress.OPEN)
        for each in plan.retrain:
            state[each.dataset] = replace(state[each.dataset], training=Progress.OPEN)
        again = plan_bump(state.values(), most_open=free, budget=0)
        assert not again.carry
        assert not again.retrain
        for key, now in state.items():
            how = chance.choice([Progress.PASSED, Progress.FAILED, Progress.CANCELLED])
            if now.step is Step.CARRYING:
                state[key] = replace(now, carry=how)
            elif now.step is Step.RETRAINING:
                state[key] = replace(now, training=how)
    assert plan.over
    assert all(each.step in ENDS for each in state.values())


def test_of_300_dependents_that_all_fail_no_more_are_trained_than_the_budget() -> None:
    standings = [standing(number, carry=Progress.FAILED) for number in range(300)]
    plan = plan_bump(standings, most_open=25, budget=20)
    assert (len(plan.carry), len(plan.retrain), plan.held, plan.over) == (0, 20, 280, False)
    fresh = plan_bump([standing(number) for number in range(300)], most_open=25, budget=20)
    assert (len(fresh.carry), len(fresh.retrain)) == (25, 0)


def test_full_models_are_retrained_and_what_was_deleted_or_cancelled_is_not_waited_for() -> None:
    plan = plan_bump([standing(1, carriable=False)], most_open=25, budget=20)
    assert (plan.carry, len(plan.retrain)) == ((), 1)
    found = [standing(1, deleted=True, carry=Progress.OPEN), standing(2, carry=Progress.CANCELLED)]
    assert [each.step for each in found] == [Step.LEFT_OUT, Step.CANCELLED]
    assert plan_bump(found, most_open=25, budget=20).over
    assert plan_bump([], most_open=25, budget=20).over
