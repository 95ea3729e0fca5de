"""Dagster's local run launcher, with a health check that notices runs lost in a power cut."""

import json
import socket

from dagster import DagsterRun, DefaultRunLauncher

from ft_resources.dagster_private import GRPC_INFO_TAG, CheckRunHealthResult, WorkerStatus
from ft_resources.run_processes import lost

_PATIENCE_S = 5.0


class WatchedRunLauncher(DefaultRunLauncher):
    """``DefaultRunLauncher`` that checks whether a run's code server, whose child executes the run, is alive.

    A server reports a child that dies. If the server dies too, the run would stay started for ever. Run monitoring asks
    this launcher and then fails the run, so that it is retried and attaches to its work.
    """

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """``FAILED`` if nothing listens any more at the run's code server, or if the process that executed it without
        one is gone; all else is no reason to end a run."""
        info = json.loads(run.tags.get(GRPC_INFO_TAG, "{}"))
        if info and not _listens(info):
            return CheckRunHealthResult(WorkerStatus.FAILED, "the code server that executed it is gone")
        if words := lost(run):
            return CheckRunHealthResult(WorkerStatus.FAILED, words)
        return CheckRunHealthResult(WorkerStatus.RUNNING)


def _listens(info: dict[str, str | int]) -> bool:
    """Whether a server listens at ``socket``, or at ``host`` and ``port``; a slow one counts as listening."""
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
