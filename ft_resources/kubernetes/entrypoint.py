"""The first process of a worker's container: ``python -m ft_resources.kubernetes.first_process COMMAND …``.

It runs COMMAND, copies what that says to the container's output, which the cluster keeps until the pod goes, and to
the file FT_WORKER_LOG, which the worker ships to the store; passes on requests to stop; takes leave of processes that
nobody else waits for, as the first process of a container must; and ends as COMMAND ended, once all is copied.
"""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO

_SIGNALLED = 128
"""A shell's way to say that a signal ended a process: 128 and its number."""


def main() -> None:
    scratch = Path(os.environ.get("FT_SCRATCH", "/tmp"))
    for folder in ("HOME", "TMPDIR"):
        if folder in os.environ:
            Path(os.environ[folder]).mkdir(parents=True, exist_ok=True)
    log = scratch / "worker.log"
    sys.exit(run(sys.argv[1:], log))


def run(command: list[str], log: Path) -> int:
    """The exit code of ``command``, whose output is on this process's and in the file ``log``."""
    child: list[int] = []
    asked: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        asked.append(number)
        for pid in child:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    # Before the child is there: the kernel drops signals that a container's first process does not handle.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "FT_WORKER_LOG": str(log)},
    )
    child.append(process.pid)
    for earlier in asked:
        os.kill(process.pid, earlier)
    assert process.stdout is not None
    with log.open("ab", buffering=0) as file:
        copying = threading.Thread(target=_copy, args=(process.stdout, file), daemon=True)
        copying.start()
        code = _wait(process.pid)
        # Processes that the worker left behind may hold the other end open.
        copying.join(timeout=5.0)
    return code if code >= 0 else _SIGNALLED - code


def _copy(output: IO[bytes], log: IO[bytes]) -> None:
    while data := os.read(output.fileno(), 1 << 16):
        log.write(data)
        os.write(1, data)


def _wait(pid: int) -> int:
    """The exit code of process ``pid``, negative for a signal; other processes that end meanwhile are let go."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    main()
