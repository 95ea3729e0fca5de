"""Retires old dataset versions, where the tenants file says how many are kept, and unlists what is retired."""

import dagster as dg

from ft_assets import api
from ft_assets.graph.listed_keys import busy_keys, unlist_keys
from ft_assets.records.retired_datasets import retired_datasets
from ft_assets.records.retired_recipes import retired_recipes
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
    """Record retired dataset versions; take retired datasets and recipes off Dagster's lists once no work uses them."""
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
    retired = {"dataset": retired_datasets(store), "recipe": retired_recipes(store).keys()}
    going = {
        dimension: sorted(keys & set(instance.get_dynamic_partitions(dimension)))[:_BATCH]
        for dimension, keys in retired.items()
    }
    if not any(going.values()) or any_backfill(instance):
        return 0
    wanted = [key for each in open_submissions(store) for key in (each.dataset, each.recipe)]
    busy = {*wanted, *busy_keys(instance)}
    free = {dimension: [key for key in keys if key not in busy] for dimension, keys in going.items()}
    for dimension, keys in free.items():
        unlist_keys(instance, dimension, keys)
    return sum(map(len, free.values()))
