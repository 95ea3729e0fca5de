"""The doctor's verdicts as blocking asset checks of the partition at hand, one for each of ``DOCTOR_CHECKS``."""

from collections.abc import Iterator

import dagster as dg

from ft_assets import identity
from ft_assets.glue import pair_of
from ft_assets.packs.evidence import DOCTOR_CHECKS, Finding, verdicts
from ft_assets.partitions import pair_check
from ft_resources.artifacts import Artifacts
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import BadData, MissingInput

__all__ = ["DOCTOR_CHECKS", "pack_doctor"]


def partition_findings(artifacts: Artifacts, partition_key: str) -> list[Finding]:
    """The verdicts on a pair's pack with today's inputs; where it is missing, every check fails."""
    dataset_key, recipe_key = pair_of(partition_key)
    try:
        pack = identity.token_pack(artifacts, dataset_key, recipe_key)
        base = identity.base_model(artifacts, recipe_key)
    except MissingInput as error:
        return [Finding(name=name, passed=False, detail=error.what) for name in DOCTOR_CHECKS]
    return verdicts(pack, config=base.read("config.json"))


def refuse_sick_pack(artifacts: Artifacts, partition_key: str) -> None:
    """Raise BadData unless every check that blocks passes: Dagster's blocking stops only the run it failed in."""
    findings = partition_findings(artifacts, partition_key)
    failed = [finding for finding in findings if not finding.passed and finding.blocks]
    if failed:
        raise BadData(
            "the token pack's doctor found: " + "; ".join(f"{finding.name}: {finding.detail}" for finding in failed),
            where=f"token_pack of {partition_key}",
            remedy="Correct the dataset, the template or the packing settings; nothing was trained.",
        )


@dg.multi_asset_check(
    specs=[pair_check("token_pack", name, description) for name, description in DOCTOR_CHECKS.items()]
)
def pack_doctor(context: dg.AssetCheckExecutionContext, store: StoreResource) -> Iterator[dg.AssetCheckResult]:
    """Reads the evidence that the work left in this partition's pack; missing or stale evidence fails."""
    for finding in partition_findings(store.artifacts, context.partition_key):
        yield dg.AssetCheckResult(
            asset_key="token_pack",
            check_name=finding.name,
            passed=finding.passed,
            severity=dg.AssetCheckSeverity.ERROR if finding.blocks else dg.AssetCheckSeverity.WARN,
            metadata={"detail": finding.detail},
        )
