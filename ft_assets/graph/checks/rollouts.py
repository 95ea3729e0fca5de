"""A rollout's end as an asset check of its candidate: what live outcomes said of it.

It shows the records and stops nothing. How an open rollout stands is in ``ft rollout status`` and on the line's page.
"""

import dagster as dg

from ft_assets.control.rollouts.rollouts import RolloutRecord, read_rollouts
from ft_assets.graph.checks.serving import SERVE_PARITY
from ft_assets.graph.partitions import listed_pair, pair_check
from ft_assets.graph.shown_checks import show_checks
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import UserError

LIVE_OUTCOMES = "live_outcomes"
_DESCRIPTION = "No rollout rolled the adapter back because of its outcomes."

LIVE_OUTCOMES_SPEC = pair_check("adapter", LIVE_OUTCOMES, _DESCRIPTION)
"""It belongs to the step of ``adapter``, as ``serve_parity`` does."""


def without_adapter() -> list[dg.AssetCheckResult]:
    """The verdicts of the checks of ``adapter`` where there is none: Dagster shows a planned check that a run did not
    reach as one whose execution failed."""
    return [
        dg.AssetCheckResult(asset_key="adapter", check_name=name, passed=True, description="not required: no adapter")
        for name in (SERVE_PARITY, LIVE_OUTCOMES)
    ]


def report_outcomes(instance: dg.DagsterInstance, artifacts: Artifacts, adapter: Artifact) -> bool:
    """Report to Dagster how the adapter's last rollout ended; False if that must wait for the partition's next run. For
    display only: the records decide."""
    partition = listed_pair(instance, adapter)
    return bool(partition) and show_checks(instance, [outcomes_result(artifacts, adapter)], partition)


def outcomes_result(artifacts: Artifacts, adapter: Artifact) -> dg.AssetCheckResult:
    """The check's result: a fail where the evidence of the adapter's last rollout took it back."""
    try:
        rollouts = read_rollouts(artifacts.store, str(adapter.facts["line"])).rollouts
    except UserError as error:
        return _result(passed=False, description=str(error))
    ended = [each.last for each in rollouts if not each.last.going and each.last.candidate == adapter.ref]
    return _ended(ended[-1]) if ended else _result(passed=True, description="no rollout of the adapter has ended")


def _ended(record: RolloutRecord) -> dg.AssetCheckResult:
    said: dict[str, str] = {each.kind: each.sentence for each in record.evidence}
    return _result(
        passed=record.kind != "rolled_back",
        description=f"{record.kind.replace('_', ' ')}: {record.reason}",
        metadata={"record": record.path, "at": record.at, **said},
    )


def _result(*, passed: bool, description: str, metadata: dict[str, str] | None = None) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key="adapter",
        check_name=LIVE_OUTCOMES,
        passed=passed,
        severity=dg.AssetCheckSeverity.ERROR,
        description=description,
        metadata={name: dg.MetadataValue.text(text) for name, text in (metadata or {}).items()},
    )
