"""All imports from Dagster's private modules, each with its reason; no other module imports ``dagster._*``.

A version of Dagster that moves one of these breaks only here, at import.
"""

import time
from collections.abc import Mapping, Sequence

import dagster as dg

# `AssetCheckEvaluation` is public, but the type of its field that names the judged materialization is not.
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData as JudgedMaterialization,
)

# What a backfill of assets with different partitions consists of.
from dagster._core.definitions.assets.graph.asset_graph import AssetGraph
from dagster._core.definitions.assets.graph.asset_graph_subset import AssetGraphSubset
from dagster._core.definitions.events import AssetKeyPartitionKey

# A job executed in this process with a run that says where its job comes from: `execute_in_process` records none.
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.definitions.partitions.context import partition_loading_context

# An error that is shown by its message only, without a stack.
from dagster._core.errors import DagsterUserCodeProcessError
from dagster._core.execution.api import execute_run_iterator

# `DagsterInstance.get_backfills` is public, but its filter is not; nor is a backfill that no dialog made.
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill

# `DefaultRunLauncher` is public, but the return type of its `check_run_worker_health` is not.
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus

# The names of a code location, of the repository in it, and of a job in that, as a run records them.
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

# The compute log manager's class is public, its import path is not.
from dagster._core.storage.compute_log_manager import CapturedLogContext
from dagster._core.storage.local_compute_log_manager import LocalComputeLogManager

# The run tag with the address of the code server that executes a run, set by the default launcher.
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster._core.utils import make_new_backfill_id

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
    "request_backfill",
]


def any_backfill(instance: dg.DagsterInstance) -> bool:
    """Whether a backfill is in progress, which may be about to launch runs of any partition."""
    return bool(instance.get_backfills(status=BulkActionStatus.REQUESTED, limit=1))


def request_backfill(
    instance: dg.DagsterInstance,
    graph: AssetGraph,
    partitions: Mapping[str, Sequence[str]],
    *,
    title: str,
    tags: Mapping[str, str],
) -> str:
    """Ask the daemon to materialize partitions of assets, of whatever partitioning; the backfill's id.

    The UI's dialog makes the same, for assets that have one partitioning at their roots.
    """
    wanted = {AssetKeyPartitionKey(dg.AssetKey(asset), key) for asset, keys in partitions.items() for key in keys}
    now = time.time()
    with partition_loading_context(dynamic_partitions_store=instance):
        backfill = PartitionBackfill.from_asset_graph_subset(
            backfill_id=make_new_backfill_id(),
            backfill_timestamp=now,
            tags=tags,
            dynamic_partitions_store=instance,
            asset_graph_subset=AssetGraphSubset.from_asset_partition_set(wanted, graph),
            title=title,
            description=None,
            run_config=None,
        )
        instance.add_backfill(backfill)
    return backfill.backfill_id


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
