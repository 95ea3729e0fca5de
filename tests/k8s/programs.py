"""Helm and kubectl: the machine's, else those that ``make`` fetched beside the packages."""

import shutil
import sys
from pathlib import Path

_FETCHED = Path(sys.prefix) / "helm"


def program(name: str) -> str | None:
    """The program's path, or None if it is not installed."""
    return shutil.which(name) or shutil.which(name, path=str(_FETCHED))
