"""Looks whether the bases of recipes in use moved on the Hub, registers successors, and records who depends.

In use are the recipes that somebody subscribes to, and those of adapters in staging or production.
"""

import dagster as dg

from ft_assets.adapters.lines import Pointer, list_lines, read_line
from ft_assets.base_bumps.bump import record_bump
from ft_assets.base_models.release import is_successor
from ft_assets.recipes.successors import current_recipe, register_successor
from ft_assets.tenants import load_tenants
from ft_resources.dagster_resources import HubResource, StoreResource
from ft_resources.errors import UserError
from ft_resources.store import Store
from ft_sensors.pace import at_most

_ACTOR = "base_revision_sensor"
_SERVED: tuple[Pointer, ...] = ("staging", "production")
# Lines whose logs are read in one tick; the others' turn comes in the next ones.
_LINES_A_TICK = 500


@dg.sensor(minimum_interval_seconds=at_most(300), default_status=dg.DefaultSensorStatus.RUNNING)
def base_revision_sensor(context: dg.SensorEvaluationContext, store: StoreResource, hub: HubResource) -> dg.SkipReason:
    """Register ``recipe.vN+1`` where the revision a recipe names is at another commit; recipes never change."""
    try:
        tenants = load_tenants()
    except UserError as error:
        return dg.SkipReason(f"the tenants file cannot be used: {error}")
    moved: list[str] = []
    problems: list[str] = []
    in_use = {item.recipe for tenant in tenants.tenants.values() for item in tenant.subscriptions}
    in_use |= _served(context, store.store, problems)
    looked: set[str] = set()
    for key in sorted(in_use):
        try:
            current = current_recipe(store.store, key)
            if current in looked:
                continue
            looked.add(current)
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
    text = f"looked at {len(looked)} recipes in use: {len(moved)} bases moved"
    if moved:
        text += f" ({', '.join(moved)})"
    return dg.SkipReason("; ".join([text, *problems]))


def _served(context: dg.SensorEvaluationContext, store: Store, problems: list[str]) -> set[str]:
    """Recipes of adapters in staging or production, of the next so many lines."""
    lines = list_lines(store)
    batch = [line for line in lines if line > (context.cursor or "")][:_LINES_A_TICK]
    context.update_cursor(batch[-1] if len(batch) == _LINES_A_TICK else "")
    found: set[str] = set()
    for line in batch:
        try:
            state = read_line(store, line)
        except UserError as error:
            problems.append(f"{line}: {error.what}")
            continue
        found |= {record.recipe for stage in _SERVED if (record := state.at(stage)) is not None}
    return found
