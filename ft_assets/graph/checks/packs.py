"""The doctor's verdicts as asset checks of the partition at hand, one for each of ``DOCTOR_CHECKS``.

Those that find a pack sick block ``checkpoint``, which looks at them again however it was launched.
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from ft_assets.control.identity.doctor import pack_findings, refuse_sick
from ft_assets.graph.glue import pair_of
from ft_assets.graph.partitions import pair_check
from ft_assets.graph.told import told
from ft_assets.workers.packs.evidence import DOCTOR_CHECKS, Finding
from ft_resources.artifacts import Artifacts
from ft_resources.dagster_resources import StoreResource

__all__ = ["DOCTOR_CHECKS", "pack_doctor"]


@dg.multi_asset_check(
    specs=[pair_check("token_pack", name, text, blocking=True) for name, text in DOCTOR_CHECKS.items()]
)
@told
def pack_doctor(context: dg.AssetCheckExecutionContext, store: StoreResource) -> Iterator[dg.AssetCheckResult]:
    """Reads the evidence in this partition's pack. Missing or stale evidence is a fail. Raises DoctorRefused for a sick
    pack once all are shown."""
    findings = partition_findings(store.artifacts, context.partition_key)
    yield from doctor_results(findings)
    refuse_sick(findings, context.partition_key)


def partition_findings(artifacts: Artifacts, partition_key: str) -> list[Finding]:
    """The doctor's findings on a pair's pack."""
    return pack_findings(artifacts, *pair_of(partition_key))


def doctor_results(findings: Sequence[Finding]) -> Iterator[dg.AssetCheckResult]:
    """The doctor's findings as Dagster shows them."""
    for finding in findings:
        yield dg.AssetCheckResult(
            asset_key="token_pack",
            check_name=finding.name,
            passed=finding.passed,
            severity=dg.AssetCheckSeverity.ERROR if finding.blocks else dg.AssetCheckSeverity.WARN,
            description=finding.detail,
        )
