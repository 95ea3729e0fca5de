"""Counts what ended attempts used, ends the promises of ended submissions, and fills the ledger."""

import dagster as dg

from ft_assets import api
from ft_resources.dagster_resources import StoreResource
from ft_sensors.ticks import at_most, sensor, take


@sensor(every=at_most(60))
def metering_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SkipReason:
    """Write usage records and update the ledger from them, one tenant after the other."""
    return take(context, lambda: api.meter(after=context.cursor or "", store=store.store), "usage cannot be counted")
