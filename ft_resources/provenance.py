"""Provenance of an artifact: source commit, lock file digest, and versions of the packages that affect results."""

import os
import subprocess
from functools import cache
from pathlib import Path

from ft_resources.canonical import sha256_file

_PROJECT = Path(__file__).resolve().parents[1]
_PACKAGES = ("ft-platform", "torch", "transformers", "trl", "peft", "tokenizers", "lm-eval", "pyarrow")


@cache
def software_versions() -> dict[str, str]:
    """Versions of Python and of the installed packages that affect results; missing ones are left out."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


@cache
def source_commit() -> str:
    """The commit of the running code: ``FT_COMMIT`` (an image sets it), else the checkout's, else ""."""
    if given := os.environ.get("FT_COMMIT"):
        return given
    command = ["git", "-C", str(_PROJECT), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


@cache
def lock_digest() -> str:
    """sha256 of the constraints file that the environment was built from; "" if the package comes without it."""
    path = _PROJECT / "constraints.txt"
    return sha256_file(path) if path.is_file() else ""
