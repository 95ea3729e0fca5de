"""Tells tenants and the platform what happened; what was told is in the store, and never told again."""

import dagster as dg

from ft_assets.notices.runs import failure_of_submission
from ft_assets.notices.telling import Round, tell
from ft_assets.tenants import load_tenants
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import UserError
from ft_resources.notifier import Notifier
from ft_sensors.pace import at_most


@dg.sensor(minimum_interval_seconds=at_most(15), default_status=dg.DefaultSensorStatus.RUNNING)
def notices_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SkipReason:
    """Send what is due to webhooks and by mail, with back-off after failures."""
    try:
        done = tell(
            store.store,
            load_tenants(),
            Notifier().send,
            lambda submission: failure_of_submission(context.instance, submission),
            after=context.cursor or "",
        )
    except UserError as error:
        return dg.SkipReason(f"notices cannot be sent: {error}")
    context.update_cursor(done.after)
    for problem in done.problems:
        context.log.warning(problem)
    return dg.SkipReason("; ".join([_words(done), *done.problems]))


def _words(done: Round) -> str:
    counts = {"sent": done.sent, "failed": done.failed, "given up": done.given_up, "waiting": done.waiting}
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return f"looked at {done.looked} events: {told or 'nothing to send'}"
