"""The two dimensions of the graph and their product, declared here and nowhere else."""

import warnings

import dagster as dg

dataset_partitions = dg.DynamicPartitionsDefinition(name="dataset")
recipe_partitions = dg.DynamicPartitionsDefinition(name="recipe")
pair_partitions = dg.MultiPartitionsDefinition({"dataset": dataset_partitions, "recipe": recipe_partitions})


def pair_check(asset: str, name: str, description: str) -> dg.AssetCheckSpec:
    """A blocking check with one verdict per pair."""
    return _check(asset, name, description, pair_partitions)


def dataset_check(asset: str, name: str, description: str) -> dg.AssetCheckSpec:
    """A blocking check with one verdict per dataset version."""
    return _check(asset, name, description, dataset_partitions)


def _check(asset: str, name: str, description: str, partitions: dg.PartitionsDefinition) -> dg.AssetCheckSpec:
    """Without partitions, all of them would share one verdict."""
    with warnings.catch_warnings():
        # Partitions of checks are a preview API, used here and nowhere else.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return dg.AssetCheckSpec(name, asset=asset, description=description, blocking=True, partitions_def=partitions)
