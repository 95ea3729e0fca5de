"""``python -m benchmarks images [TARGET …]``: what images take unpacked, and how long a process of each takes to start.

They are built first, as tools/images.py says. Without a TARGET the small ones are; ``worker``, with PyTorch for CUDA,
takes 35 GB of disk meanwhile, and whatever FLASH_ATTN among FT_IMAGE_ARGS says.
"""

import sys
import time
from pathlib import Path

from benchmarks.table import Figure
from tools.images import LIMITS_MB, build, lacking, run, size_mb, unpacked

_NAMES = {"control": "control", "worker-cpu": "worker_cpu", "worker": "worker_cuda"}


def measure(*targets: str) -> list[Figure]:
    if unknown := set(targets) - _NAMES.keys():
        sys.exit(f"no target {', '.join(sorted(unknown))}; there are {', '.join(_NAMES)}")
    if missing := lacking():
        sys.exit(f"no image can be built: {missing} is missing")
    figures = []
    for target in targets or LIMITS_MB:
        name, limit = _NAMES[target], LIMITS_MB.get(target)
        with unpacked(build(target)) as root:
            figures.append(_at_most(f"image_{name}_mb", f"{target}, unpacked, MB", size_mb(root), limit))
            if target != "control":
                run(root, "ft", "kernels")
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
