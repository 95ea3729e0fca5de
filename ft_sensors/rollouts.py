"""Looks at open rollouts: the next step, production, or back."""

from functools import partial

import dagster as dg

from ft_assets import api
from ft_assets.graph.checks.rollouts import report_outcomes
from ft_resources.dagster_resources import StoreResource
from ft_sensors.ticks import at_most, sensor, take


@sensor(every=at_most(60))
def rollouts_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SkipReason:
    """Give the candidates of rollouts more traffic, move them to production or take them back, as outcomes say; remove
    outcomes that are too old."""

    def step() -> api.Step:
        show = partial(report_outcomes, context.instance)
        return api.advance_rollouts(after=context.cursor or "", store=store.store, log=context.log, show=show)

    return take(context, step, "rollouts cannot be read")
