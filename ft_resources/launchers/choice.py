"""Which launcher this process uses: ``FT_LAUNCHER`` is ``local`` (the default) or ``kubernetes``.

The latter reads the cluster's settings from the file that ``FT_KUBERNETES`` names (default ``kubernetes.yaml``).
"""

import os
from pathlib import Path

from ft_resources.errors import UserError
from ft_resources.launchers.base import Launcher
from ft_resources.launchers.worker_pythons import worker_pythons
from ft_resources.lazy import load

# By name: each imports much, and most commands launch nothing.
_LOCAL = "ft_resources.launchers.local:LocalLauncher"
_KUBERNETES = "ft_resources.launchers.kubernetes:connect"
_DEVICES = Path("/dev")


def make_launcher(kind: str = "", settings_path: str = "") -> Launcher:
    """The launcher of a kind; without one, the kind in ``FT_LAUNCHER``.

    Raises UserError for an unknown kind, bad settings (also in ``FT_WORKER_PYTHONS``), or without a cluster.
    """
    kind = kind or os.environ.get("FT_LAUNCHER", "local")
    if kind == "local":
        local: Launcher = load(_LOCAL)(pythons=worker_pythons())
        return local
    if kind == "kubernetes":
        cluster: Launcher = load(_KUBERNETES)(settings_path)
        return cluster
    raise UserError(
        f"there is no launcher {kind!r}",
        where="FT_LAUNCHER",
        remedy="Set it to local or kubernetes, or leave it out for workers on this machine.",
    )


def gpus_missing(wanted: int) -> str:
    """Why workers of this process's launcher cannot have so many NVIDIA GPUs, as a sentence; "" if they may."""
    here = local_gpus()
    if os.environ.get("FT_LAUNCHER", "local") != "local" or here >= wanted:
        return ""
    has = {0: "no GPU", 1: "one GPU"}.get(here, f"{here} GPUs")
    return f"The recipe trains on {wanted} {'GPU' if wanted == 1 else 'GPUs'}, and this machine has {has}."


def local_gpus() -> int:
    """NVIDIA GPUs of this machine."""
    # Under WSL the devices have no names of their own.
    return len([*_DEVICES.glob("nvidia[0-9]*"), *_DEVICES.glob("dxg")])
