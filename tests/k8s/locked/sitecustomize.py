"""In a process with LOCKED_TO, imports find only what that lock names, as in the image that is made of it.

Python imports this by itself where PYTHONPATH names this folder. A module is refused by its file, so that of two
packages which share a name (mlflow and mlflow-skinny) the files of the locked one are found alone.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, DistributionFinder, distributions
from pathlib import Path
from types import ModuleType

PINNED = re.compile(r"^([a-z0-9.-]+)==", re.MULTILINE)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


class LockedFinder:
    """Python's finder of modules on ``sys.path``, without files of packages that are not locked."""

    def __init__(self, lock: Path) -> None:
        self._names = set(PINNED.findall(lock.read_text(encoding="utf-8")))
        found = [each for each in distributions() if _normal(each.name) in self._names]
        self._installed = {str(each.locate_file("")) for each in found}
        self._files = {str(each.locate_file(file)) for each in found for file in each.files or ()}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target)
        origin = spec and spec.origin
        here = origin and any(origin.startswith(f"{folder}{os.sep}") for folder in self._installed)
        return None if here and origin not in self._files else spec

    def find_distributions(self, context: DistributionFinder.Context) -> Iterator[Distribution]:
        found: Iterable[Distribution] = PathFinder.find_distributions(context)
        return (each for each in found if _normal(each.name) in self._names | {"ft-platform"})

    def invalidate_caches(self) -> None:
        PathFinder.invalidate_caches()


# Workers that it starts are in another image, and may be forks.
if lock := os.environ.pop("LOCKED_TO", ""):
    os.environ["PYTHONPATH"] = os.environ.pop("PYTHONPATH_OF_WORKERS", os.environ["PYTHONPATH"])
    sys.meta_path[sys.meta_path.index(PathFinder)] = LockedFinder(Path(lock))
