"""Lets what waits rise with time: runs in Dagster's queue, and Jobs in the cluster's (``kubernetes/queue.py``)."""

import time
from collections.abc import Mapping

import dagster as dg

from ft_assets.graph.queueing import QueuedRun, is_training, plan_tags
from ft_assets.settings import tags
from ft_assets.settings.keys import DatasetKey
from ft_assets.settings.tenants import load_tenants
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.errors import LauncherRefusal, UserError
from ft_sensors.ticks import at_most, sensor
from ft_sensors.ticks import said as told

# A tick has 60 s; what is left over is the next tick's.
_RUNS, _TAGGED = 2000, 200
_TRAINED = frozenset({"checkpoint", "adapter"})


@sensor(every=at_most(60))
def ageing_sensor(
    context: dg.SensorEvaluationContext, store: StoreResource, launcher: LauncherResource
) -> dg.SkipReason:
    """Raise the priority of work that has waited, tag runs launched by hand, and protect nearly finished work from
    preemption."""
    said, changed = [], 0
    try:
        text, changed = age_runs(context.instance)
        said.append(text)
    except UserError as error:
        said.append(f"run priorities are unchanged: {error}")
    try:
        if queue := launcher.launcher.queue:
            text, cursor, given = queue.age(store.store, context.cursor or "")
            context.update_cursor(cursor)
            said.append(text)
            changed += given
    except (UserError, LauncherRefusal) as error:
        said.append(f"the cluster could not be read: {error}")
    return told("; ".join(said), worked=changed)


def age_runs(instance: dg.DagsterInstance) -> tuple[str, int]:
    """Tag the runs in Dagster's queue by their tenants' tiers and waits. Returns a sentence and the number of tagged
    runs."""
    of_queue = dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED])
    # Those that have waited longest: a backfill may have queued more runs after them than a tick looks at.
    records = instance.get_run_records(of_queue, limit=_RUNS, ascending=True)
    runs = [run for record in records if (run := _queued(record))]
    wanted = plan_tags(sorted(runs, key=lambda run: -run.waited_s), load_tenants())
    tagged = list(wanted.items())[:_TAGGED]
    for run_id, added in tagged:
        instance.add_run_tags(run_id, added)
    return f"checked {len(records)} queued runs: {len(tagged)} retagged", len(tagged)


def _queued(record: dg.RunRecord) -> QueuedRun | None:
    """A queued run in the form that the plan reads; None if it has no tenant."""
    run = record.dagster_run
    tenant = run.tags.get(tags.TENANT) or _tenant_of(run.tags)
    if tenant is None:
        return None
    chosen = {key.to_user_string() for key in run.asset_selection or ()}
    return QueuedRun(
        run_id=run.run_id,
        tenant=tenant,
        trains=is_training(run.job_name) or bool(chosen & _TRAINED),
        tags=run.tags,
        waited_s=max(0.0, time.time() - record.create_timestamp.timestamp()),
    )


def _tenant_of(run_tags: Mapping[str, str]) -> str | None:
    """The tenant of an untagged run, from the dataset in its partition key."""
    try:
        return DatasetKey.parse(run_tags.get("dagster/partition", "").partition("|")[0]).tenant
    except UserError:
        return None
