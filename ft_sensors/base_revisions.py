"""Looks whether the bases of recipes in use moved on the Hub, registers successors, and records who depends."""

import dagster as dg

from ft_assets import api
from ft_resources.dagster_resources import HubResource, StoreResource
from ft_sensors.ticks import at_most, sensor, take

ACTOR = "base_revision_sensor"


@sensor(every=at_most(300))
def base_revision_sensor(context: dg.SensorEvaluationContext, store: StoreResource, hub: HubResource) -> dg.SkipReason:
    """Register ``recipe.vN+1`` if the revision that a recipe names has moved to another commit. Recipes themselves
    never change."""
    return take(
        context,
        lambda: api.start_base_bumps(after=context.cursor or "", hub=hub.hub, store=store.store, actor=ACTOR),
        "the tenants file cannot be used",
    )
