"""Looks whether the bases of subscribed recipes moved on the Hub, registers successors, and records who depends."""

import dagster as dg

from ft_assets.base_bumps.bump import record_bump
from ft_assets.base_models.release import is_successor
from ft_assets.recipes.successors import current_recipe, register_successor
from ft_assets.tenants import load_tenants
from ft_resources.dagster_resources import HubResource, StoreResource
from ft_resources.errors import UserError
from ft_sensors.pace import at_most

_ACTOR = "base_revision_sensor"


@dg.sensor(minimum_interval_seconds=at_most(300), default_status=dg.DefaultSensorStatus.RUNNING)
def base_revision_sensor(context: dg.SensorEvaluationContext, store: StoreResource, hub: HubResource) -> dg.SkipReason:
    """Register ``recipe.vN+1`` where the revision a recipe names is at another commit; recipes never change."""
    try:
        tenants = load_tenants()
    except UserError as error:
        return dg.SkipReason(f"the tenants file cannot be used: {error}")
    subscribed = {item.recipe for tenant in tenants.tenants.values() for item in tenant.subscriptions}
    moved: list[str] = []
    problems: list[str] = []
    for key in sorted(subscribed):
        try:
            current = current_recipe(store.store, key)
            successor = register_successor(store.store, current, hub.hub, actor=_ACTOR)
            # Also where the process died after registering: until the bump is recorded, nobody submits the lines.
            if is_successor(store.store, successor or current):
                record_bump(store.artifacts, successor or current, actor=_ACTOR, problems=problems)
        except UserError as error:
            # One base that is gone must not keep the others from being looked at.
            problems.append(f"{key}: {error.what}")
            continue
        if successor:
            context.log.info(f"the base of {current} moved; registered {successor}")
            moved.append(successor)
    text = f"looked at {len(subscribed)} subscribed recipes: {len(moved)} bases moved"
    if moved:
        text += f" ({', '.join(moved)})"
    return dg.SkipReason("; ".join([text, *problems]))
