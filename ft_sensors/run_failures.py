"""Records runs that failed and that no submission speaks for; the notices sensor tells of them."""

from datetime import UTC, datetime, timedelta

import dagster as dg

from ft_assets.graph.failed_runs import record_failures
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import UserError
from ft_sensors.ticks import at_most, said, sensor

_BATCH = 100
# Where nothing is known of earlier ticks: what was recorded already is not recorded again.
_LOOK_BACK = timedelta(days=1)
# What Dagster writes a moment late must not be passed over.
_OVERLAP = timedelta(seconds=30)


@sensor(every=at_most(30))
def run_failures_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SkipReason:
    """Classify failed runs: which asset failed, whether the cause is the user's or the platform's, and what to do."""
    instance, now = context.instance, datetime.now(UTC)
    after = datetime.fromisoformat(context.cursor) if context.cursor else now - _LOOK_BACK
    records = instance.get_run_records(
        filters=dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], updated_after=after),
        limit=_BATCH,
        order_by="update_timestamp",
        ascending=True,
    )
    found: dict[str, dg.RunRecord] = {record.dagster_run.run_id: record for record in records}
    problems: list[str] = []
    try:
        told, again = record_failures(instance, store.store, list(found.values()), now, problems)
    except UserError as error:
        # The cursor stays, so the next tick looks at them once more.
        return dg.SkipReason(f"failed runs cannot be recorded: {error}")
    full = len(records) == _BATCH
    after = records[-1].update_timestamp.replace(tzinfo=UTC) if full else now - _OVERLAP
    # Undecided ones are looked at again, from just before the first.
    context.update_cursor(min(after, again - timedelta(seconds=1) if again else after).isoformat())
    waiting = f", again from {again:%H:%M:%S} on" if again else ""
    text = "; ".join([f"checked {len(found)} failed runs: {told} to report{waiting}", *problems])
    return said(text, worked=told)
