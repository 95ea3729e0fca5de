"""The graph's lists of partitions and its group, declared here and nowhere else."""

import warnings

import dagster as dg

from ft_resources.artifacts import Artifact

dataset_partitions = dg.DynamicPartitionsDefinition(name="dataset")
recipe_partitions = dg.DynamicPartitionsDefinition(name="recipe")
pair_partitions = dg.MultiPartitionsDefinition({"dataset": dataset_partitions, "recipe": recipe_partitions})
# Empty: it keeps versions from being called out of sync, see ``upstream_assets``.
source_partitions = dg.DynamicPartitionsDefinition(name="source")


def of_dataset(asset: str) -> dg.AssetDep:
    """A pair's dependency on the partition of its dataset version."""
    return _of_dimension(asset, "dataset")


def of_recipe(asset: str) -> dg.AssetDep:
    """A pair's dependency on the partition of its recipe."""
    return _of_dimension(asset, "recipe")


def _of_dimension(asset: str, dimension: str) -> dg.AssetDep:
    with warnings.catch_warnings():
        # Mappings of one dimension are a beta API, used here and nowhere else.
        warnings.simplefilter("ignore", dg.BetaWarning)
        return dg.AssetDep(asset, partition_mapping=dg.MultiToSingleDimensionPartitionMapping(dimension))


def pair_key(dataset: str, recipe: str) -> dg.MultiPartitionKey:
    """The partition of a dataset version and a recipe, as text ``DATASET|RECIPE``."""
    return dg.MultiPartitionKey({"dataset": dataset, "recipe": recipe})


def listed_pair(instance: dg.DagsterInstance, adapter: Artifact) -> str:
    """The partition of the pair that an adapter was made for; "" where Dagster does not have it."""
    params = adapter.manifest.identity["params"]
    dataset, recipe = str(params.get("dataset")), str(params.get("recipe"))
    listed = instance.has_dynamic_partition("dataset", dataset) and instance.has_dynamic_partition("recipe", recipe)
    return pair_key(dataset, recipe) if listed else ""


# One group for all: the lineage page draws a single one open, and several as closed boxes.
GROUP = "fine_tuning"


def pair_check(asset: str, name: str, description: str, *, blocking: bool = False) -> dg.AssetCheckSpec:
    """A check with one verdict per pair. A blocking one that fails ends the run before what comes after its asset."""
    return _check(asset, name, description, pair_partitions, blocking)


def dataset_check(asset: str, name: str, description: str, *, blocking: bool = False) -> dg.AssetCheckSpec:
    """A check with one verdict per dataset version."""
    return _check(asset, name, description, dataset_partitions, blocking)


def _check(
    asset: str, name: str, description: str, partitions: dg.PartitionsDefinition, blocking: bool
) -> dg.AssetCheckSpec:
    """Without partitions, all of them would share one verdict."""
    with warnings.catch_warnings():
        # Partitions of checks are a preview API, used here and nowhere else.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return dg.AssetCheckSpec(
            name, asset=asset, description=description, partitions_def=partitions, blocking=blocking
        )
