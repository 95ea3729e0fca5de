"""Workers as processes on this machine, each in its own session, so that they outlive the process that started them."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from ft_resources.attempts import Attempt, Ending
from ft_resources.errors import UserError
from ft_resources.launchers.base import LaunchState
from ft_resources.launchers.choice import local_gpus
from ft_resources.outcomes import outcome_of_exit
from ft_resources.work import WorkSpec


class LocalLauncher:
    """Runs ``python -m <module>`` next to the orchestrator: this process's Python, or that in ``pythons`` for the kind
    of work.

    A process is identified by its id *and* the attempt in its command line: ids are reused, and start times move when
    the clock is set. Its log and scratch files are in its own folder, which the worker removes when it ends, after
    uploading the log to the store.
    """

    # Processes on this machine never wait in a queue, and their launches are recorded here.
    queue = explains = remote = pods = None

    def __init__(self, module: str = "ft_assets.worker", *, pythons: Mapping[str, str] | None = None) -> None:
        self._module = module
        self._pythons = pythons or {}
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def gpus_now(self, spec: WorkSpec, attempt: Attempt) -> int:
        """As many as this machine has."""
        sizes = spec.resources.gpu_sizes
        return next((size for size in sizes if size <= local_gpus()), sizes[-1])

    def launch(self, spec: WorkSpec, attempt: Attempt) -> None:
        _require_one_node(spec)
        folder = Path(tempfile.mkdtemp(prefix="ft-worker-", dir=os.environ.get("FT_SCRATCH")))
        log = folder / "worker.log"
        own = {"FT_WORKER_FOLDER": str(folder), "FT_WORKER_LOG": str(log), "FT_SCRATCH": str(folder)}
        with log.open("wb") as output:
            child = subprocess.Popen(
                [self._pythons.get(spec.asset, sys.executable), "-m", self._module, spec.location],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **own},
            )
        self._children[child.pid] = child
        attempt.write_launch(
            {
                "launcher": "local",
                "host": socket.gethostname(),
                "pid": child.pid,
                "folder": str(folder),
                "log": str(log),
            }
        )

    def state(self, attempt: Attempt) -> LaunchState:
        handle = _handle_here(attempt)
        if handle is None:
            return LaunchState.UNKNOWN
        return LaunchState.RUNNING if self._process(attempt, handle) else LaunchState.GONE

    def ending(self, attempt: Attempt) -> Ending | None:
        """By the exit code of a process that this one started."""
        handle = _handle_here(attempt)
        child = self._children.get(handle["pid"]) if handle else None
        code = child.poll() if child else None
        return None if code is None else Ending(outcome=outcome_of_exit(code))

    def stop(self, attempt: Attempt, grace_s: float) -> None:
        handle = _handle_here(attempt)
        process = self._process(attempt, handle) if handle else None
        if handle is None or process is None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while self._process(attempt, handle) and time.monotonic() < deadline:
            time.sleep(0.1)
        if self._process(attempt, handle):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            while self._process(attempt, handle):
                time.sleep(0.05)

    def clean_up(self, attempt: Attempt) -> None:
        handle = _handle_here(attempt)
        if handle is None or "folder" not in handle or self._process(attempt, handle):
            return
        with suppress(FileNotFoundError):
            # The end of a killed worker's log may say why.
            attempt.complete_log(Path(handle["log"]).read_bytes())
        shutil.rmtree(handle["folder"], ignore_errors=True)

    def _process(self, attempt: Attempt, handle: dict[str, Any]) -> psutil.Process | None:
        """The living process of a handle; a zombie or another process with the same id does not count."""
        child = self._children.get(handle["pid"])
        if child is not None and child.poll() is not None:
            return None
        try:
            process = psutil.Process(handle["pid"])
            # One that is about to end has no command line any more. The id of a child is not reused before it is known
            # to have ended.
            if child is not None:
                return process
            same = any(part.endswith(_spec_of(attempt)) for part in process.cmdline())
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return None


def _handle_here(attempt: Attempt) -> dict[str, Any] | None:
    """The handle of a worker that was started on this machine; None for any other, or if none was started."""
    handle = attempt.launch()
    if handle is None or handle["launcher"] != "local" or handle["host"] != socket.gethostname():
        return None
    return handle


def _require_one_node(spec: WorkSpec) -> None:
    nodes = spec.runtime.get("nodes", 1)
    if nodes > 1:
        raise UserError(
            f"{nodes} nodes were requested, and the local launcher has only this machine",
            where="hardware.nodes",
            remedy="Use a launcher that starts workers in a cluster, or a recipe with nodes 1.",
        )


def _spec_of(attempt: Attempt) -> str:
    """The end of a worker's command line."""
    return f"#{attempt.store.layout.place(f'{attempt.path}/spec.json')}"
