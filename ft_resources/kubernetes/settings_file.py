"""The file of a cluster's settings: what ``FT_KUBERNETES`` names, else ``kubernetes.yaml``."""

import os
from pathlib import Path

from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.strict import read_strict

DEFAULT_SETTINGS = "kubernetes.yaml"


def read_settings(path: str = "") -> KubernetesSettings:
    """The cluster's settings. Raises BadRecipe, which names every mistake in the file."""
    file = Path(path or os.environ.get("FT_KUBERNETES", DEFAULT_SETTINGS))
    remedy = "Write them (docs/start/cluster.md), and name the file in FT_KUBERNETES."
    return read_strict(KubernetesSettings, file, what="the cluster's settings", remedy=remedy)
