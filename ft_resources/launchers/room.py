"""Host memory and scratch disk of a worker, by the launcher of this process."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil

from ft_resources.lazy import load
from ft_resources.work import Resources

_SETTINGS = "ft_resources.kubernetes.settings_file:read_settings"
_LIMIT = Path("/sys/fs/cgroup/memory.max")
_GIB = 2**30


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """Bytes on each node, and how to get more of each, as the end of a sentence."""

    memory: float
    disk: float
    more_memory: str
    more_disk: str


def worker_room(wanted: Resources) -> Room:
    """The room of a worker that requests ``wanted``: of this machine, or by the cluster's settings (FT_LAUNCHER).

    Raises UserError for bad settings.
    """
    if os.environ.get("FT_LAUNCHER", "local") != "kubernetes":
        scratch = os.environ.get("FT_SCRATCH") or tempfile.gettempdir()
        return Room(
            memory=_memory_here(),
            disk=shutil.disk_usage(scratch).free if Path(scratch).is_dir() else 0.0,
            more_memory="use a machine with more memory",
            more_disk=f"free space in {scratch}, or set FT_SCRATCH to a folder on a larger disk",
        )
    settings = load(_SETTINGS)()
    return Room(
        memory=settings.memory_gib_of(wanted) * _GIB,
        disk=settings.scratch_gib * _GIB,
        more_memory="request more with hardware.memory_gib in a new recipe version",
        more_disk="ask the platform's administrators for a larger scratch_gib in the cluster's settings",
    )


def _memory_here(limit: Path = _LIMIT) -> float:
    """This machine's memory, or its container's limit (https://docs.kernel.org/admin-guide/cgroup-v2.html)."""
    whole = psutil.virtual_memory().total
    try:
        return min(whole, int(limit.read_text()))
    except (OSError, ValueError):
        return whole
