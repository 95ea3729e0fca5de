"""The process that executes a run which no launcher started: a tag of the run, and a check that it is alive."""

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dagster as dg

# On runs that a process executes itself, as `ft run` does.
PROCESS = "ft/process"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def process_tag(pid: int | None = None) -> str:
    """A process, by default this one: its machine, and its id there with the time at which it began."""
    pid = os.getpid() if pid is None else pid
    return f"{_machine()} {pid} {_began(pid)}"


def lost(run: "dg.DagsterRun") -> str:
    """In words, that the process which executed a run itself is gone; "" for every other run."""
    # A run launched again from the UI has the tags of the earlier run, and a process that Dagster knows.
    return "" if run.parent_run_id else gone(run.tags.get(PROCESS, ""))


def gone(tag: str) -> str:
    """In words, that the process of a run's tag is gone; "" if it lives, or if that cannot be known on this machine."""
    machine, pid, began = (*tag.rsplit(" ", 2), "", "")[:3]
    if machine != _machine() or not pid.isdigit() or _began(int(pid)) == began:
        return ""
    return f"the process that executed it is gone (process {pid} on {socket.gethostname()}); what it made is kept"


def _machine() -> str:
    """Host, boot, and the space that process ids count in: one host may run containers."""
    space = Path("/proc/self/ns/pid")
    boot = _BOOT.read_text().strip() if _BOOT.exists() else ""
    return f"{socket.gethostname()} {boot} {os.readlink(space) if space.exists() else ''}"


def _began(pid: int) -> str:
    """When a living process began, in ticks since the boot where the system tells them: the clock may be set. "" if
    there is none."""
    if Path("/proc/self/stat").exists():
        try:
            state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return ""
        return "" if state == "Z" else fields[18]
    # Importing it takes a tenth of a second, and Linux does not need it.
    import psutil

    try:
        return str(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return ""
