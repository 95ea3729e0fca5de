"""Parity as an asset check of an adapter: whether its servers were proved to give what was evaluated.

It shows the sealed records and stops nothing: where production demands parity, the promotion asks for it.
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from ft_assets.control.parity.proofs import Proof, proofs_of
from ft_assets.control.parity.records import ParityRecord, list_parity
from ft_assets.graph.partitions import listed_pair, pair_check
from ft_assets.graph.shown_checks import show_checks
from ft_assets.settings.servers import load_servers
from ft_assets.settings.tenants import load_tenants
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import UserError

SERVE_PARITY = "serve_parity"
_DESCRIPTION = "The servers reproduce the evaluated answers with their current settings, if production requires it."


SERVE_PARITY_SPEC = pair_check("adapter", SERVE_PARITY, _DESCRIPTION)
"""It belongs to the step of ``adapter``, which has what it looks at."""


def report_parity(instance: dg.DagsterInstance, artifacts: Artifacts, adapter: Artifact) -> bool:
    """Report how an adapter's servers stand to Dagster; False if that must wait for the partition's next run. For
    display only: the records decide."""
    partition = listed_pair(instance, adapter) if adapter.address.asset == "adapter" else ""
    return bool(partition) and show_checks(instance, [parity_result(artifacts, adapter)], partition)


def parity_result(artifacts: Artifacts, adapter: Artifact) -> dg.AssetCheckResult:
    """The check's result. Where production of the line does not demand parity, only a failed check is a fail."""
    try:
        if load_tenants().parity_of(str(adapter.facts["line"])):
            return _demanded(proofs_of(artifacts, adapter, load_servers()))
        return _not_demanded(list_parity(artifacts.store, adapter))
    except UserError as error:
        return _result(passed=False, description=str(error))


def _demanded(proofs: Sequence[Proof]) -> dg.AssetCheckResult:
    return _result(
        passed=all(proof.proved for proof in proofs),
        description="; ".join(proof.sentence for proof in proofs),
        records=[proof.record for proof in proofs if proof.record is not None],
    )


def _not_demanded(records: Sequence[ParityRecord]) -> dg.AssetCheckResult:
    if not records:
        return _result(passed=True, description="not required, not checked")
    said = "; ".join(f"{each.server} ({each.report.settings.sentence}): {each.report.outcome}" for each in records)
    return _result(
        passed=records[-1].report.outcome != "failed",
        description=f"not required; {said}",
        records=records,
        severity=dg.AssetCheckSeverity.WARN,
    )


def _result(
    *,
    passed: bool,
    description: str,
    records: Sequence[ParityRecord] = (),
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR,
) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key="adapter",
        check_name=SERVE_PARITY,
        passed=passed,
        severity=severity,
        description=description,
        metadata={name: value for record in records for name, value in _metadata(record)},
    )


def _metadata(record: ParityRecord) -> Iterator[tuple[str, dg.MetadataValue]]:
    yield f"{record.server}: record", dg.MetadataValue.text(record.path)
    yield f"{record.server}: outcome", dg.MetadataValue.text(record.report.outcome)
    yield f"{record.server}: settings", dg.MetadataValue.text(record.report.settings.sentence)
    for key, found in record.report.suites.items():
        yield f"{record.server}: suite {key}", dg.MetadataValue.text(found.sentence)
    for name, figures in (("server", record.report.figures), ("control", record.report.control)):
        for figure, value in (figures.model_dump() if figures is not None else {}).items():
            shown = dg.MetadataValue.float(float(f"{value:.6g}")) if isinstance(value, float) else value
            yield f"{record.server}: {figure}{' of the control' if name == 'control' else ''}", shown
