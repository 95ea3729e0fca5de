"""All imports from Dagster's private modules, each with its reason; no other module imports ``dagster._*``.

A version of Dagster that moves one of these breaks only here, at import.
"""

from collections.abc import Mapping

import dagster as dg

# `AssetCheckEvaluation` is public, but the type of its field that names the judged materialization is not.
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData as JudgedMaterialization,
)

# A job executed in this process with a run that says where its job comes from: `execute_in_process` records none.
from dagster._core.definitions.job_base import InMemoryJob

# An error that is shown by its message only, without a stack.
from dagster._core.errors import DagsterUserCodeProcessError
from dagster._core.execution.api import execute_run_iterator

# `DagsterInstance.get_backfills` is public, but its filter is not.
from dagster._core.execution.backfill import BulkActionStatus

# `DefaultRunLauncher` is public, but the return type of its `check_run_worker_health` is not.
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus

# The names of a code location, of the repository in it, and of a job in that, as a run records them.
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

# The compute log manager's class is public, its import path is not.
from dagster._core.storage.compute_log_manager import CapturedLogContext
from dagster._core.storage.local_compute_log_manager import LocalComputeLogManager

# The run tag with the address of the code server that executes a run, set by the default launcher.
from dagster._core.storage.tags import GRPC_INFO_TAG

# The type of the first argument of `from_config_value`.
from dagster._serdes import ConfigurableClassData
from dagster._utils.error import SerializableErrorInfo

__all__ = [
    "GRPC_INFO_TAG",
    "CapturedLogContext",
    "CheckRunHealthResult",
    "ConfigurableClassData",
    "DagsterUserCodeProcessError",
    "JudgedMaterialization",
    "LocalComputeLogManager",
    "SerializableErrorInfo",
    "WorkerStatus",
    "any_backfill",
    "cancel_backfill",
    "execute_here",
]


def any_backfill(instance: dg.DagsterInstance) -> bool:
    """Whether a backfill is in progress, which may be about to launch runs of any partition."""
    return bool(instance.get_backfills(status=BulkActionStatus.REQUESTED, limit=1))


def cancel_backfill(instance: dg.DagsterInstance, backfill_id: str) -> None:
    """What *Cancel* on a backfill's page does: the daemon queues no more of its runs, and cancels those it has."""
    backfill = instance.get_backfill(backfill_id)
    if backfill is not None and backfill.status is BulkActionStatus.REQUESTED:
        instance.update_backfill(backfill.with_status(BulkActionStatus.CANCELING))


def execute_here(
    instance: dg.DagsterInstance, job: dg.JobDefinition, partition: str, run_tags: Mapping[str, str], location: str
) -> tuple[dg.DagsterRun, list[dg.DagsterEvent]]:
    """Execute a job in this process, as a run of the code location ``location``: the run as it was made, and
    its events.

    The UI's timeline and its lists of a job's runs leave out runs without a code location.
    """
    repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(location), "__repository__")
    run = instance.create_run_for_job(
        job,
        tags={**job.run_tags, **job.get_tags_for_partition_key(partition, None), **run_tags},
        remote_job_origin=RemoteJobOrigin(repository, job.name),
    )
    return run, list(execute_run_iterator(InMemoryJob(job), run, instance))
