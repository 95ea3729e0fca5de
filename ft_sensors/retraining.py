"""Submits subscribed lines whose dataset has a new version or whose recipe has a successor (its base moved)."""

from datetime import UTC, datetime

import dagster as dg

from ft_assets.base_bumps.progress import covers
from ft_assets.base_models.release import is_successor
from ft_assets.datasets.versions import latest_version
from ft_assets.keys import RecipeKey
from ft_assets.recipes.successors import current_recipe
from ft_assets.submissions.record import FIRST_WISH, check_admission, check_wish, find_submission, submission_id, submit
from ft_assets.submissions.retraining import LineState, Wish, plan_retraining, take_budget
from ft_assets.tenants import Subscription, TenantsFile, load_tenants
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import UserError
from ft_resources.store import Store
from ft_sensors.pace import at_most


@dg.sensor(minimum_interval_seconds=at_most(30), default_status=dg.DefaultSensorStatus.RUNNING)
def retraining_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SkipReason:
    """Record a submission for every subscribed line that moved on; the submissions sensor launches it."""
    try:
        tenants = load_tenants()
    except UserError as error:
        return dg.SkipReason(f"the tenants file cannot be used: {error}")
    problems: list[str] = []
    lines = subscribed_lines(store.store, tenants, problems)
    wishes = [wish for wish in plan_retraining(lines) if _possible(store.store, wish, problems)]
    today = datetime.now(UTC).date()
    submitted = 0
    for wish in wishes:
        if not take_budget(store.store, today, tenants.retrainings_per_day, wish):
            break
        submit(
            store.store,
            dataset=wish.dataset,
            recipe=wish.recipe,
            actor="retraining_sensor",
            origin="sensor",
            idempotency_key=FIRST_WISH,
        )
        context.log.info(f"submitted {wish.dataset} with {wish.recipe}")
        submitted += 1
    held = len(wishes) - submitted
    over = f"; {held} wait for tomorrow's budget of {tenants.retrainings_per_day}" if held else ""
    return dg.SkipReason(
        "; ".join([f"looked at {len(lines)} subscribed lines: {submitted} submitted{over}", *problems])
    )


def _possible(store: Store, wish: Wish, problems: list[str]) -> bool:
    """Whether the wish can be submitted; otherwise it is named, and takes nothing of the day's budget."""
    try:
        check_wish(store, wish.dataset, wish.recipe)
        check_admission(store, wish.dataset, wish.recipe)
    except UserError as error:
        problems.append(f"{wish.dataset} with {wish.recipe}: {error.what}")
        return False
    return True


def subscribed_lines(store: Store, tenants: TenantsFile, problems: list[str]) -> list[LineState]:
    """Where every subscribed line stands: newest dataset version, recipe or its successor, and whether submitted.

    A line whose records cannot be read is added to ``problems``, and the rest goes on.
    """
    lines = []
    for tenant, settings in sorted(tenants.tenants.items()):
        for subscription in settings.subscriptions:
            try:
                lines.append(_line(store, tenant, subscription))
            except UserError as error:
                problems.append(f"{tenant}.{subscription.dataset} with {subscription.recipe}: {error.what}")
    return lines


def _line(store: Store, tenant: str, subscription: Subscription) -> LineState:
    newest = latest_version(store, tenant, subscription.dataset)
    recipe = current_recipe(store, subscription.recipe)
    dataset = str(newest) if newest else ""
    asked = submission_id(dataset, recipe, FIRST_WISH)
    submitted = bool(dataset) and (find_submission(store, tenant, asked) is not None or _bumped(store, dataset, recipe))
    return LineState(tenant=tenant, dataset=dataset, recipe=recipe, submitted=submitted)


def _bumped(store: Store, dataset: str, recipe: str) -> bool:
    """Whether the pair is the base bump's to submit, which carries it before anything is trained."""
    return RecipeKey.parse(recipe).version > 1 and is_successor(store, recipe) and covers(store, recipe, dataset)
