"""Brings every base bump one step further: carry what depends on the old base, retrain what fails, release the base."""

import dagster as dg

from ft_assets import api
from ft_assets.graph.jobs.submissions import asset_jobs
from ft_resources.dagster_resources import StoreResource
from ft_sensors.launches import take_and_launch
from ft_sensors.ticks import at_most, sensor

ACTOR = "base_bump_sensor"


@sensor(every=at_most(30), jobs=asset_jobs)
def base_bump_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult | dg.SkipReason:
    """Submit the next work of open base bumps and launch its first runs. Release a base once its bump is complete."""

    def step() -> api.Step:
        return api.advance_base_bumps(store=store.store, actor=ACTOR)

    return take_and_launch(context, store, step, "base bumps cannot be read")
