"""Retires old dataset versions, where the tenants file says how many are kept."""

import dagster as dg

from ft_assets import api
from ft_assets.graph.listed_keys import busy_keys, unlist_keys
from ft_assets.records.retired_datasets import retired_datasets
from ft_assets.records.submissions import open_submissions
from ft_resources.dagster_private import any_backfill
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import UserError
from ft_resources.store import Store
from ft_sensors.ticks import said, sensor

ACTOR = "retention_sensor"
_BATCH = 500


@sensor(every=600)
def retention_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SkipReason:
    """Record retired dataset versions, and remove their keys from Dagster's list once no work uses them."""
    try:
        done = api.retire_datasets(after=context.cursor or "", store=store.store, actor=ACTOR)
        gone = _unlist(context.instance, store.store)
    except UserError as error:
        return dg.SkipReason(f"nothing is retired while a record cannot be read: {error}")
    for line in done.log:
        context.log.info(line)
    context.update_cursor(done.after)
    return said(f"{done.said}; {gone} keys removed from the list" if gone else done.said, worked=done.worked + gone)


def _unlist(instance: dg.DagsterInstance, store: Store) -> int:
    """Remove retired keys from Dagster's list that no open submission, run or backfill uses."""
    listed = set(instance.get_dynamic_partitions("dataset"))
    going = sorted(listed & retired_datasets(store))[:_BATCH]
    if not going or any_backfill(instance):
        return 0
    busy = {submission.dataset for submission in open_submissions(store)} | busy_keys(instance)
    free = [key for key in going if key not in busy]
    unlist_keys(instance, "dataset", free)
    return len(free)
