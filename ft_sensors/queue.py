"""Tells when submissions of a tier wait longer than it promises, and when they do no more."""

import dagster as dg

from ft_assets import api
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_sensors.ticks import at_most, sensor, take


@sensor(every=at_most(60))
def queue_sensor(
    context: dg.SensorEvaluationContext, store: StoreResource, launcher: LauncherResource
) -> dg.SkipReason:
    """Check the waiting work of tiers with `max_wait_minutes`; a breach and its end each cause one notice."""
    return take(
        context,
        lambda: api.watch_queues(lambda: launcher.launcher, store=store.store),
        "queues cannot be read",
    )
