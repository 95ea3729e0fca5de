"""Tells tenants and the platform what happened; what was told is in the store, and never told again."""

import dagster as dg

from ft_assets import api
from ft_resources.dagster_resources import StoreResource
from ft_sensors.ticks import at_most, sensor, take


@sensor(every=at_most(15))
def notices_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SkipReason:
    """Send due notices to webhooks and by mail, with back-off after failures."""
    return take(
        context,
        lambda: api.send_notices(after=context.cursor or "", store=store.store),
        "notices cannot be sent",
    )
