"""Workers as processes of this machine, each in a session of its own, so that they outlive who started them."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from ft_resources.attempts import Attempt
from ft_resources.launchers.base import LaunchState
from ft_resources.work import WorkSpec


class LocalLauncher:
    """Runs ``python -m <module>`` beside the orchestrator.

    A process is named by its id *and* its start time, because ids are used again. The log goes to a local file, which
    the worker itself ships to the store.
    """

    def __init__(self, module: str = "ft_assets.worker") -> None:
        self._module = module
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def launch(self, spec: WorkSpec, attempt: Attempt) -> None:
        log = Path(tempfile.mkdtemp(prefix="ft-log-")) / f"{spec.asset}.log"
        env = {**os.environ, "FT_WORKER_LOG": str(log)}
        location = f"{spec.store_url}#{attempt.path}/spec.json"
        with log.open("wb") as output:
            child = subprocess.Popen(
                [sys.executable, "-m", self._module, location],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=env,
            )
        self._children[child.pid] = child
        attempt.write_launch(
            {
                "launcher": "local",
                "host": socket.gethostname(),
                "pid": child.pid,
                "started": _start_time(child.pid),
                "log": str(log),
            }
        )

    def state(self, attempt: Attempt) -> LaunchState:
        handle = attempt.launch()
        if handle is None or handle["launcher"] != "local" or handle["host"] != socket.gethostname():
            return LaunchState.UNKNOWN
        return LaunchState.RUNNING if self._process(handle) else LaunchState.GONE

    def exit_code(self, attempt: Attempt) -> int | None:
        handle = attempt.launch()
        child = self._children.get(handle["pid"]) if handle else None
        return child.poll() if child else None

    def stop(self, attempt: Attempt, grace_s: float) -> None:
        handle = attempt.launch()
        process = self._process(handle) if handle else None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while self._process(handle) and time.monotonic() < deadline:
            time.sleep(0.1)
        if self._process(handle):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            while self._process(handle):
                time.sleep(0.05)

    def _process(self, handle: dict[str, Any] | None) -> psutil.Process | None:
        """The living process behind a handle; a zombie or another process with the same id is none."""
        if handle is None:
            return None
        child = self._children.get(handle["pid"])
        if child is not None:
            child.poll()
        try:
            process = psutil.Process(handle["pid"])
            same = abs(process.create_time() - handle["started"]) < 1.0
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None


def _start_time(pid: int) -> float:
    """Start time of a process, or now where it has already ended."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return time.time()
