"""Which launcher this process uses: ``FT_LAUNCHER`` is ``local`` (where unset) or ``kubernetes``.

The latter reads the cluster's settings from the file that ``FT_KUBERNETES`` names (``kubernetes.yaml`` where unset).
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ft_resources.errors import UserError
from ft_resources.launchers.base import Launcher
from ft_resources.launchers.local import LocalLauncher

if TYPE_CHECKING:
    from ft_resources.kubernetes.settings import KubernetesSettings

DEFAULT_SETTINGS = "kubernetes.yaml"


def launcher_kind() -> str:
    return os.environ.get("FT_LAUNCHER", "local")


def make_launcher(kind: str, settings_path: str = "") -> Launcher:
    """The launcher of a kind. Raises UserError for an unknown kind, bad settings, or without a cluster."""
    if kind == "local":
        return LocalLauncher()
    if kind == "kubernetes":
        from ft_resources.kubernetes.api import Api
        from ft_resources.launchers.kubernetes import KubernetesLauncher

        settings = read_settings(settings_path)
        return KubernetesLauncher(settings, Api.connect(settings.context))
    raise UserError(
        f"there is no launcher {kind!r}",
        where="FT_LAUNCHER",
        remedy="Set it to local or kubernetes, or leave it out for workers on this machine.",
    )


def read_settings(path: str = "") -> "KubernetesSettings":
    """The cluster's settings. Raises BadRecipe that names every mistake of the file."""
    # What reads strict YAML belongs to the recipes; this is the one place that needs it from down here.
    from ft_assets.recipes.strict import read_strict
    from ft_resources.kubernetes.settings import KubernetesSettings

    file = Path(path or os.environ.get("FT_KUBERNETES", DEFAULT_SETTINGS))
    remedy = "Write them (docs/kubernetes.md), and name the file in FT_KUBERNETES."
    return read_strict(KubernetesSettings, file, what="the cluster's settings", remedy=remedy)
