"""End a process with all of its children, within seconds."""

import os
from contextlib import suppress

import psutil

# Together less than the ten seconds that service managers usually wait.
GRACE_S, KILL_S = 4.0, 1.0


def end_tree(pid: int, grace_s: float = GRACE_S) -> None:
    """Ask the process and its children to end, and kill what is left after ``grace_s``.

    Children in a session of their own are left alone: workers outlive the process that started them.
    """
    found = _tree(pid)
    for process in found[:1]:
        process.terminate()
    _, alive = psutil.wait_procs(found, timeout=grace_s)
    left = {*alive, *(child for process in alive for child in _tree(process.pid))}
    for process in left:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(left, timeout=KILL_S)


def kill_children() -> None:
    """Kill the children of this process, except those in a session of their own."""
    for child in _tree(os.getpid())[1:]:
        with suppress(psutil.NoSuchProcess):
            child.kill()


def _tree(pid: int) -> list[psutil.Process]:
    """The process, and its children of the same session."""
    try:
        first, session = psutil.Process(pid), os.getsid(pid)
        return [first, *(child for child in first.children(recursive=True) if _session(child.pid) == session)]
    except (psutil.NoSuchProcess, ProcessLookupError):
        return []


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0
