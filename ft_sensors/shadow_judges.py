"""Asks the judges of rollouts about copied requests."""

import dagster as dg

from ft_assets import api
from ft_resources.dagster_resources import StoreResource
from ft_sensors.ticks import at_most, sensor, take


@sensor(every=at_most(60))
def shadow_judges_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SkipReason:
    """Ask the judges of rollouts which of both answers to copied requests is better. It is a sensor of its own, so that
    a judge that is slow holds up no rollout."""
    return take(
        context, lambda: api.judge_copies(after=context.cursor or "", store=store.store), "judges cannot be used"
    )
