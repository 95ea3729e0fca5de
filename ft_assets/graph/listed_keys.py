"""The keys that Dagster lists as partitions: datasets and recipes. Pairs are their product."""

from collections.abc import Collection, Iterable

import dagster as dg

from ft_assets.api import Launch
from ft_assets.graph.partitions import pair_key
from ft_resources.run_states import ACTIVE_STATUSES

# Databases limit the parameters of a query.
_KEYS_AT_ONCE = 500
# How often another process may add a key between a look and the insert after it.
_RACES = 5


def list_pair(instance: dg.DagsterInstance, dataset: str, recipe: str) -> dg.MultiPartitionKey:
    """List the pair of a dataset version and a recipe; returns its partition, for ``dg.materialize`` and jobs."""
    list_keys(instance, dataset=dataset, recipe=recipe)
    return pair_key(dataset, recipe)


def list_keys(instance: dg.DagsterInstance, *, dataset: str = "", recipe: str = "") -> None:
    """List a dataset, a recipe or both, which lists their pair. Listing one again changes nothing."""
    for dimension, key in (("dataset", dataset), ("recipe", recipe)):
        if key and not instance.has_dynamic_partition(dimension, key):
            add_keys(instance, dimension, [key])


def list_launched(instance: dg.DagsterInstance, launches: Iterable[Launch]) -> None:
    """List the keys of many launches with one query per list instead of one per launch."""
    pairs = {(each.submission.dataset, each.trial or each.submission.recipe) for each in launches}
    add_keys(instance, "dataset", {dataset for dataset, _ in pairs})
    add_keys(instance, "recipe", {recipe for _, recipe in pairs})


def add_keys(instance: dg.DagsterInstance, dimension: str, keys: Iterable[str]) -> None:
    """Add keys while other processes may add some of them: on SQLite Dagster first reads the existing keys and then
    inserts the rest, and the whole insert is refused if one of them was added in between. The retry sees it."""
    from sqlalchemy.exc import IntegrityError

    ordered = sorted(keys)
    for begin in range(0, len(ordered), _KEYS_AT_ONCE):
        for left in reversed(range(_RACES + 1)):
            try:
                instance.add_dynamic_partitions(dimension, ordered[begin : begin + _KEYS_AT_ONCE])
                break
            except IntegrityError:
                if not left:
                    raise


def unlist_keys(instance: dg.DagsterInstance, dimension: str, keys: Collection[str]) -> None:
    """Take keys off one of Dagster's lists, and so the pairs that they are part of."""
    for key in sorted(set(keys)):
        instance.delete_dynamic_partition(dimension, key)


def active_partitions(instance: dg.DagsterInstance) -> set[str]:
    """Partition keys of all queued and running runs: only these, as a backfill queues a run for each of its pairs."""
    return {found.partition for found in instance.get_run_partition_data(dg.RunsFilter(statuses=ACTIVE_STATUSES))}


def busy_keys(instance: dg.DagsterInstance) -> set[str]:
    """The datasets and recipes of all queued and running runs."""
    return {part for partition in active_partitions(instance) for part in partition.split("|")}
