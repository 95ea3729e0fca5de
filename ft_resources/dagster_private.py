"""All imports from Dagster's private modules, each with its reason; no other module imports ``dagster._*``.

A version of Dagster that moves one of these breaks only here, at import.
"""

import dagster as dg

# `AssetCheckEvaluation` is public, but the type of its field that names the judged materialization is not.
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData as JudgedMaterialization,
)

# `DagsterInstance.get_backfills` is public, but its filter is not.
from dagster._core.execution.backfill import BulkActionStatus

# `DefaultRunLauncher` is public, but the return type of its `check_run_worker_health` is not.
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus

# The run tag with the address of the code server that executes a run, set by the default launcher.
from dagster._core.storage.tags import GRPC_INFO_TAG

__all__ = ["GRPC_INFO_TAG", "CheckRunHealthResult", "JudgedMaterialization", "WorkerStatus", "any_backfill"]


def any_backfill(instance: dg.DagsterInstance) -> bool:
    """Whether a backfill is in progress, which may be about to launch runs of any partition."""
    return bool(instance.get_backfills(status=BulkActionStatus.REQUESTED, limit=1))
