"""The doctor's verdicts as asset checks of the partition at hand, one for each of ``DOCTOR_CHECKS``.

They show the verdicts; ``checkpoint`` looks at them again and refuses a sick pack in the doctor's own words.
"""

from collections.abc import Iterator

import dagster as dg

from ft_assets.control.identity.doctor import pack_findings
from ft_assets.graph.glue import pair_of
from ft_assets.graph.partitions import pair_check
from ft_assets.graph.told import told
from ft_assets.workers.packs.evidence import DOCTOR_CHECKS
from ft_resources.artifacts import Artifacts
from ft_resources.dagster_resources import StoreResource

__all__ = ["DOCTOR_CHECKS", "pack_doctor"]


@dg.multi_asset_check(
    specs=[pair_check("token_pack", name, description) for name, description in DOCTOR_CHECKS.items()]
)
@told
def pack_doctor(context: dg.AssetCheckExecutionContext, store: StoreResource) -> Iterator[dg.AssetCheckResult]:
    """Reads the evidence in this partition's pack. Missing or stale evidence is a fail."""
    yield from doctor_results(store.artifacts, context.partition_key)


def doctor_results(artifacts: Artifacts, partition_key: str) -> Iterator[dg.AssetCheckResult]:
    """The verdicts on a pair's pack, as Dagster shows them."""
    for finding in pack_findings(artifacts, *pair_of(partition_key)):
        yield dg.AssetCheckResult(
            asset_key="token_pack",
            check_name=finding.name,
            passed=finding.passed,
            severity=dg.AssetCheckSeverity.ERROR if finding.blocks else dg.AssetCheckSeverity.WARN,
            description=finding.detail,
        )
