"""``python -m benchmarks images``: what the small images take unpacked, and how long a process of each takes to start.

They are built first, as tools/images.py says.
"""

import sys
import time
from pathlib import Path

from benchmarks.table import Figure
from tools.images import LIMITS_MB, build, lacking, run, size_mb, unpacked


def measure() -> list[Figure]:
    if missing := lacking():
        sys.exit(f"no image can be built: {missing} is missing")
    figures = []
    for target, limit in LIMITS_MB.items():
        name = target.replace("-", "_")
        with unpacked(build(target)) as root:
            figures.append(_at_most(f"image_{name}_mb", f"{target}, unpacked, MB", size_mb(root), limit))
            figures.append(
                _at_most(f"image_{name}_load_s", f"{target}: the code location loads, s", _loads(root), None)
            )
    return figures


def _loads(root: Path) -> float:
    """Seconds of a fresh process; the files were read before."""
    run(root, "python", "-c", "import ft_assets.definitions")
    began = time.monotonic()
    run(root, "python", "-c", "import ft_assets.definitions")
    return time.monotonic() - began


def _at_most(key: str, what: str, value: float, most: float | None) -> Figure:
    goal = "reported" if most is None else f"<= {most:,}"
    return Figure(key=key, what=what, ours=value, peer=None, peer_is="", goal=goal, met=most is None or value <= most)
