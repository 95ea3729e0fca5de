"""All that tests and benchmarks take from Dagster's private modules, each with its reason."""

# A run worker is started as Dagster's Kubernetes run launcher starts it, to measure what one costs; see ExecuteRunArgs.
# The graph's tags "stale" and "fresh", which are otherwise to be had from a webserver only.
from dagster._core.definitions.data_version import CachingStaleStatusResolver as CachingStaleStatusResolver
from dagster._core.definitions.data_version import StaleStatus as StaleStatus
from dagster._core.definitions.reconstruct import ReconstructableRepository as ReconstructableRepository

# The only way to record a backfill without a webserver.
from dagster._core.execution.backfill import BulkActionStatus as BulkActionStatus
from dagster._core.execution.backfill import PartitionBackfill as PartitionBackfill
from dagster._core.loader import LoadingContextForTest as LoadingContextForTest

# A queued run has to say where its job comes from.
from dagster._core.remote_origin import RegisteredCodeLocationOrigin as RegisteredCodeLocationOrigin
from dagster._core.remote_origin import RemoteJobOrigin as RemoteJobOrigin
from dagster._core.remote_origin import RemoteRepositoryOrigin as RemoteRepositoryOrigin

# What the Helm chart's run coordinator is, as an instance loads it.
from dagster._core.run_coordinator import QueuedRunCoordinator as QueuedRunCoordinator

# The database whose failures are planted.
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage as SqliteEventLogStorage

# Runs in a state of choice, without executing one.
from dagster._core.test_utils import create_run_for_test as create_run_for_test

# How long the daemon sleeps between its looks.
from dagster._daemon import controller as controller
from dagster._daemon import sensor as sensor

# Dagster's own order of its queue.
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import (
    QueuedRunCoordinatorDaemon as QueuedRunCoordinatorDaemon,
)

# The command line of a run worker.
from dagster._grpc.types import ExecuteRunArgs as ExecuteRunArgs
