"""Submits subscribed lines whose dataset has a new version or whose recipe has a successor (its base moved)."""

import dagster as dg

from ft_assets import api
from ft_assets.graph.jobs.submissions import asset_jobs
from ft_resources.dagster_resources import StoreResource
from ft_sensors.launches import take_and_launch
from ft_sensors.ticks import at_most, sensor

ACTOR = "retraining_sensor"


@sensor(every=at_most(30), jobs=asset_jobs)
def retraining_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult | dg.SkipReason:
    """Record a submission for every subscribed line with a new dataset version or recipe, and launch its first runs."""

    def step() -> api.Step:
        return api.retrain(store=store.store, actor=ACTOR)

    return take_and_launch(context, store, step, "the tenants file cannot be used")
