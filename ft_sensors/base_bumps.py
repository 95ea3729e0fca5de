"""Brings every base bump one step further: carry what depends on the old base, retrain what fails, release the base."""

import dagster as dg

from ft_assets import api
from ft_resources.dagster_resources import StoreResource
from ft_sensors.ticks import at_most, sensor, take

ACTOR = "base_bump_sensor"


@sensor(every=at_most(30))
def base_bump_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SkipReason:
    """Submit the next work of open base bumps; the submissions sensor launches it. Release a base once its bump is
    complete."""
    return take(context, lambda: api.advance_base_bumps(store=store.store, actor=ACTOR), "base bumps cannot be read")
