"""The graph's lists of partitions and its group, declared here and nowhere else."""

import warnings

import dagster as dg

from ft_resources.artifacts import Artifact

dataset_partitions = dg.DynamicPartitionsDefinition(name="dataset")
recipe_partitions = dg.DynamicPartitionsDefinition(name="recipe")
# Only pairs that somebody asked for: of a product of both lists, Dagster would show all others as missing.
pair_partitions = dg.DynamicPartitionsDefinition(name="pair")
# Empty: it keeps versions from being called out of sync, see ``upstream_assets``.
source_partitions = dg.DynamicPartitionsDefinition(name="source")


def upstream(asset: str) -> dg.AssetDep:
    """A dependency of pairs on an asset of datasets or recipes: the lineage draws it; no partition waits for another.
    Dagster has no mapping between dynamic lists. Work finds its inputs in the store, and fails without them."""
    return dg.AssetDep(asset, partition_mapping=dg.SpecificPartitionsPartitionMapping([]))


def pair_key(dataset: str, recipe: str) -> str:
    """The partition of a dataset version and a recipe."""
    return f"{dataset}|{recipe}"


def pair_of(instance: dg.DagsterInstance, adapter: Artifact) -> str:
    """The partition of the pair that an adapter was made for; "" where Dagster does not have it."""
    params = adapter.manifest.identity["params"]
    partition = pair_key(str(params.get("dataset")), str(params.get("recipe")))
    return partition if instance.has_dynamic_partition(pair_partitions.name or "", partition) else ""


# One group for all: the lineage page draws a single one open, and several as closed boxes.
GROUP = "fine_tuning"


def pair_check(asset: str, name: str, description: str) -> dg.AssetCheckSpec:
    """A check with one verdict per pair."""
    return _check(asset, name, description, pair_partitions)


def dataset_check(asset: str, name: str, description: str) -> dg.AssetCheckSpec:
    """A check with one verdict per dataset version."""
    return _check(asset, name, description, dataset_partitions)


def _check(asset: str, name: str, description: str, partitions: dg.PartitionsDefinition) -> dg.AssetCheckSpec:
    """Without partitions, all of them would share one verdict. None blocks: Dagster shows a stack of its own for that,
    and stops only the run in which a check fails."""
    with warnings.catch_warnings():
        # Partitions of checks are a preview API, used here and nowhere else.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return dg.AssetCheckSpec(name, asset=asset, description=description, partitions_def=partitions)
