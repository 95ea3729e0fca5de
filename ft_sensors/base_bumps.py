"""Brings every base bump one step further: carry what depends on the old base, retrain what fails, release the base."""

from datetime import UTC, datetime

import dagster as dg

from ft_assets.base_bumps.bump import BaseBump, Dependent, find_bump
from ft_assets.base_bumps.plan import Standing, Step, plan_bump
from ft_assets.base_bumps.progress import ACTOR, budget_left, open_bumps, standings, start_carry, start_training
from ft_assets.base_bumps.report import summary
from ft_assets.base_models.release import release_base
from ft_assets.recipes.successors import current_recipe
from ft_assets.submissions.record import check_admission, check_wish
from ft_assets.submissions.retraining import Wish, take_budget
from ft_assets.tenants import load_tenants
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import UserError
from ft_resources.store import Store
from ft_sensors.pace import at_most

# Each is an evaluation: so many at a time leave room for what people ask for, and bound a tick.
_MOST_OPEN = 25


@dg.sensor(minimum_interval_seconds=at_most(30), default_status=dg.DefaultSensorStatus.RUNNING)
def base_bump_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SkipReason:
    """Submit what open base bumps need next; the submissions sensor launches it. Release a base when none is open."""
    try:
        per_day = load_tenants().retrainings_per_day
        recipes = open_bumps(store.store)
    except UserError as error:
        return dg.SkipReason(f"base bumps cannot be looked at: {error}")
    said: list[str] = []
    free = _MOST_OPEN
    for recipe in recipes:
        try:
            free -= _advance(store.store, recipe, per_day, free, said)
        except UserError as error:
            # One bump that cannot be read must not keep the others waiting.
            said.append(f"{recipe}: {error.what}")
    for words in said:
        context.log.info(words)
    return dg.SkipReason("; ".join([f"looked at {len(recipes)} open base bumps", *said]))


def _advance(store: Store, recipe: str, per_day: int, free: int, said: list[str]) -> int:
    """Take the next steps of one bump, and say which; how many of its carries are open now."""
    bump = find_bump(store, recipe)
    assert bump is not None, f"the bump to {recipe} vanished"
    following = current_recipe(store, recipe)
    found = list(standings(store, bump))
    carrying = sum(each.step is Step.CARRYING for each in found)
    if following != recipe:
        said.append(f"{recipe}: its base moved again, {following} goes on from it")
        return carrying
    today = datetime.now(UTC).date()
    plan = plan_bump(found, most_open=carrying + max(0, free - carrying), budget=budget_left(store, today, per_day))
    carried = [each for each in plan.carry if _possible(store, recipe, each, said) and start_carry(store, recipe, each)]
    retrained = [
        each
        for each in plan.retrain
        if _possible(store, recipe, each, said, trains=True)
        and take_budget(store, today, per_day, Wish(dataset=each.dataset, recipe=recipe))
        and start_training(store, recipe, each)
    ]
    if plan.over:
        _release(store, bump, found)
    held = f", {plan.held} wait for tomorrow's budget of {per_day}" if plan.held else ""
    words = f"{len(carried)} carries and {len(retrained)} retrainings submitted{held}"
    said.append(f"{recipe}: {'released' if plan.over else words}; {summary(found)}")
    return carrying + len(carried)


def _possible(store: Store, recipe: str, dependent: Dependent, said: list[str], *, trains: bool = False) -> bool:
    """Whether the pair can be submitted; otherwise it is named, and takes nothing of the day's budget."""
    try:
        check_wish(store, dependent.dataset, recipe)
        if trains:
            check_admission(store, dependent.dataset, recipe)
    except UserError as error:
        said.append(f"{dependent.dataset} with {recipe}: {error.what}")
        return False
    return True


def _release(store: Store, bump: BaseBump, found: list[Standing]) -> None:
    release_base(store, bump.recipe, actor=ACTOR, reason=f"nothing that depends on it is open: {summary(found)}")
