"""Submits subscribed lines whose dataset has a new version or whose recipe has a successor (its base moved)."""

import dagster as dg

from ft_assets import api
from ft_resources.dagster_resources import StoreResource
from ft_sensors.ticks import at_most, sensor, take

ACTOR = "retraining_sensor"


@sensor(every=at_most(30))
def retraining_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SkipReason:
    """Record a submission for every subscribed line with a new dataset version or recipe; the submissions sensor
    launches it."""
    return take(context, lambda: api.retrain(store=store.store, actor=ACTOR), "the tenants file cannot be used")
