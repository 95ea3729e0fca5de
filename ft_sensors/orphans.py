"""Looks for Jobs on the cluster that nobody waits for, and for attempts that have no worker any more."""

import json
from dataclasses import replace

import dagster as dg

from ft_assets import api
from ft_assets.graph.listed_keys import active_partitions
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_sensors.ticks import sensor, take

ACTOR = "orphans_sensor"


@sensor(every=120)
def orphans_sensor(
    context: dg.SensorEvaluationContext, store: StoreResource, launcher: LauncherResource
) -> dg.SkipReason:
    """Collect, close, end or stop cluster Jobs that no run waits for, and close attempts without a worker."""

    def step() -> api.Step:
        busy, unwanted = active_partitions(context.instance), _noted(context.cursor)
        done = api.settle_orphans(launcher.launcher, busy=busy, unwanted=unwanted, store=store.store, actor=ACTOR)
        return replace(done, after=json.dumps(done.unwanted))

    return take(context, step, "the cluster could not be read")


def _noted(cursor: str | None) -> dict[str, float]:
    """Since when Jobs have been seen unwanted; only a hint, so an invalid value is dropped."""
    try:
        found = json.loads(cursor or "{}")
        return {str(uid): float(at) for uid, at in found.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
