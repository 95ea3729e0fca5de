"""Records runs that failed and that no submission speaks for; the notices sensor tells of them."""

from datetime import UTC, datetime, timedelta

import dagster as dg

from ft_assets.notices.runs import Seen, plan_failures, record_failure, see
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import UserError
from ft_sensors.pace import at_most

_BATCH = 100
# Where nothing is known of earlier ticks: what was recorded already is not recorded again.
_LOOK_BACK = timedelta(days=1)
# What Dagster writes a moment late must not be passed over.
_OVERLAP = timedelta(seconds=30)


@dg.sensor(minimum_interval_seconds=at_most(30), default_status=dg.DefaultSensorStatus.RUNNING)
def run_failures_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SkipReason:
    """Classify failed runs: which asset, on whose side it lies, and what to do."""
    instance, now = context.instance, datetime.now(UTC)
    after = datetime.fromisoformat(context.cursor) if context.cursor else now - _LOOK_BACK
    records = instance.get_run_records(
        filters=dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], updated_after=after),
        limit=_BATCH,
        order_by="update_timestamp",
        ascending=True,
    )
    found: dict[str, dg.RunRecord] = {record.dagster_run.run_id: record for record in records}
    seen: list[Seen] = []
    problems: list[str] = []
    for run_id, record in found.items():
        try:
            seen.append(see(instance, store.store, record))
        except UserError as error:
            problems.append(f"run {run_id}: {error.what}")
    told, again = plan_failures(seen, now)
    try:
        for run_id in told:
            record_failure(instance, store.store, found[run_id])
    except UserError as error:
        # The cursor stays, so the next tick looks at them once more.
        return dg.SkipReason(f"failed runs cannot be recorded: {error}")
    full = len(records) == _BATCH
    after = records[-1].update_timestamp.replace(tzinfo=UTC) if full else now - _OVERLAP
    # Undecided ones are looked at again, from just before the first.
    context.update_cursor(min(after, again - timedelta(seconds=1) if again else after).isoformat())
    waiting = f", from {again:%H:%M:%S} on once more" if again else ""
    return dg.SkipReason("; ".join([f"looked at {len(found)} failed runs: {len(told)} to tell of{waiting}", *problems]))
