"""The container's entrypoint: ``python -m ft_resources.kubernetes.entrypoint COMMAND …``.

It runs COMMAND and copies its output to the container's output (kept by the cluster while the pod exists) and to the
file FT_WORKER_LOG (shipped to the store by the worker). It forwards signals, reaps orphaned processes as PID 1 must,
and exits with COMMAND's status once all output is copied.
"""

import codecs
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO

from ft_resources.shown import shown

_SIGNALLED = 128
"""Shell convention: exit status of a process ended by a signal is 128 plus the signal's number."""

_LEFT_BEHIND_S = 5.0
"""How long output is still copied after COMMAND's end, if a process that it left behind could write more."""


def main() -> None:
    scratch = Path(os.environ.get("FT_SCRATCH", "/tmp"))
    for folder in ("HOME", "TMPDIR"):
        if folder in os.environ:
            Path(os.environ[folder]).mkdir(parents=True, exist_ok=True)
    log = scratch / "worker.log"
    sys.exit(run(sys.argv[1:], log))


def run(command: list[str], log: Path) -> int:
    """Run ``command``, copying its output to this process's output and to the file ``log``; its exit code."""
    child: list[int] = []
    asked: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        asked.append(number)
        for pid in child:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    # Installed before the child starts: the kernel drops signals that PID 1 does not handle.
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
        copying.join(timeout=_LEFT_BEHIND_S)
    return code if code >= 0 else _SIGNALLED - code


def _copy(output: IO[bytes], log: IO[bytes]) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while data := os.read(output.fileno(), 1 << 16):
        log.write(data)
        # The pod's log is read on terminals; the file is what was written.
        os.write(1, shown(decoder.decode(data)).encode())


def _wait(pid: int) -> int:
    """The exit code of process ``pid`` (negative for a signal); reaps other processes that end meanwhile."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    main()
