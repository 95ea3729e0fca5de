"""The doctor's verdicts as blocking asset checks of the partition at hand, one for each of ``DOCTOR_CHECKS``."""

import warnings
from collections.abc import Iterator

import dagster as dg

from ft_assets import identity
from ft_assets.glue import pair_of
from ft_assets.packs.evidence import DOCTOR_CHECKS, Finding, verdicts, vocabulary_size
from ft_assets.partitions import pair_partitions
from ft_resources.artifacts import Artifacts
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import MissingInput

__all__ = ["DOCTOR_CHECKS", "pack_doctor"]


def _spec(name: str, description: str) -> dg.AssetCheckSpec:
    with warnings.catch_warnings():
        # partitions_def on checks is a preview; without it one verdict would stand for all partitions.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return dg.AssetCheckSpec(
            name, asset="token_pack", description=description, blocking=True, partitions_def=pair_partitions
        )


def partition_findings(artifacts: Artifacts, partition_key: str) -> list[Finding]:
    """The verdicts on a pair's pack with today's inputs; where it is missing, every check fails."""
    dataset_key, recipe_key = pair_of(partition_key)
    try:
        pack = identity.token_pack(artifacts, dataset_key, recipe_key)
        base = identity.base_model(artifacts, recipe_key)
    except MissingInput as error:
        return [Finding(name=name, passed=False, detail=error.what) for name in DOCTOR_CHECKS]
    return verdicts(pack, vocabulary=vocabulary_size(base.read("config.json")))


@dg.multi_asset_check(specs=[_spec(name, description) for name, description in DOCTOR_CHECKS.items()])
def pack_doctor(context: dg.AssetCheckExecutionContext, store: StoreResource) -> Iterator[dg.AssetCheckResult]:
    """Reads the evidence that the work left in this partition's pack; missing or stale evidence fails."""
    for finding in partition_findings(store.artifacts, context.partition_key):
        yield dg.AssetCheckResult(
            asset_key="token_pack",
            check_name=finding.name,
            passed=finding.passed,
            severity=dg.AssetCheckSeverity.ERROR,
            metadata={"detail": finding.detail},
        )
