"""The doctor's verdicts as asset checks of the partition at hand, one for each of ``DOCTOR_CHECKS``.

They show the verdicts; ``checkpoint`` looks at them again and refuses a sick pack in the doctor's own words.
"""

from collections.abc import Iterable, Iterator

import dagster as dg

from ft_assets.control import identity
from ft_assets.graph.glue import pair_of
from ft_assets.graph.partitions import pair_check
from ft_assets.graph.told import told
from ft_assets.workers.packs.evidence import DOCTOR_CHECKS, Finding, verdicts
from ft_resources.artifacts import Artifacts
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import DoctorRefused, MissingInput

__all__ = ["DOCTOR_CHECKS", "pack_doctor"]


def partition_findings(artifacts: Artifacts, partition_key: str) -> list[Finding]:
    """The verdicts on a pair's pack with its current inputs; without a pack, every check fails."""
    dataset_key, recipe_key = pair_of(partition_key)
    try:
        pack = identity.token_pack(artifacts, dataset_key, recipe_key)
        base = identity.base_model(artifacts, recipe_key)
    except MissingInput as error:
        return [Finding(name=name, passed=False, detail=error.what) for name in DOCTOR_CHECKS]
    return verdicts(pack, config=base.read("config.json"))


def refuse_sick_pack(artifacts: Artifacts, partition_key: str) -> None:
    """Raise DoctorRefused for a pack that must not be trained on."""
    findings = partition_findings(artifacts, partition_key)
    failed = [finding for finding in findings if not finding.passed and finding.blocks]
    if failed:
        raise DoctorRefused(
            "; ".join(f"{finding.name.replace('_', ' ')}: {finding.detail}" for finding in failed),
            where=f"token_pack of {partition_key}",
            remedy="Correct the dataset, the template or the packing settings; nothing was trained.",
        )


@dg.multi_asset_check(
    specs=[pair_check("token_pack", name, description) for name, description in DOCTOR_CHECKS.items()]
)
@told
def pack_doctor(context: dg.AssetCheckExecutionContext, store: StoreResource) -> Iterator[dg.AssetCheckResult]:
    """Reads the evidence in this partition's pack. Missing or stale evidence is a fail."""
    yield from doctor_results(partition_findings(store.artifacts, context.partition_key))


def doctor_results(findings: Iterable[Finding]) -> Iterator[dg.AssetCheckResult]:
    """Findings as Dagster shows them."""
    for finding in findings:
        yield dg.AssetCheckResult(
            asset_key="token_pack",
            check_name=finding.name,
            passed=finding.passed,
            severity=dg.AssetCheckSeverity.ERROR if finding.blocks else dg.AssetCheckSeverity.WARN,
            description=finding.detail,
        )
