"""Runs as local processes, as Dagster launches them, and word of those that a power cut took."""

import json
import socket

from dagster import DagsterRun
from dagster._core.launcher import CheckRunHealthResult, DefaultRunLauncher, WorkerStatus
from dagster._core.storage.tags import GRPC_INFO_TAG

_PATIENCE_S = 5.0


class WatchedRunLauncher(DefaultRunLauncher):
    """``DefaultRunLauncher`` that tells whether a run's code server, whose child executes the run, is there.

    A server reports a child that dies. Where the server died with it, nobody would, and the run would stay started for
    ever: run monitoring asks here, and then fails the run, so that it is tried again and attaches to its work.
    """

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """``FAILED`` where nothing listens any more where the run was started; all else is no reason to end a run."""
        info = json.loads(run.tags.get(GRPC_INFO_TAG, "{}"))
        if info and not _listens(info):
            return CheckRunHealthResult(WorkerStatus.FAILED, "the code server that executed it is gone")
        return CheckRunHealthResult(WorkerStatus.RUNNING)


def _listens(info: dict[str, str | int]) -> bool:
    """Whether somebody listens at ``socket`` or at ``host`` and ``port``; one who is slow to answer does."""
    family = socket.AF_UNIX if "socket" in info else socket.AF_INET
    place = str(info["socket"]) if "socket" in info else (str(info.get("host", "localhost")), int(info.get("port", 0)))
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(_PATIENCE_S)
        try:
            connection.connect(place)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True
