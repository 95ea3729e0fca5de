"""A worker on a machine that lacks some packages: ``python -m tests.workers.training.without_packages FOLDER NAME ...``

Trains the bench in FOLDER where the packages of those names cannot be found, and prints the result's facts as JSON in
its last line.
"""

import importlib.machinery
import importlib.util
import json
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, DistributionFinder, MetadataPathFinder
from pathlib import Path
from typing import Any


class _Lacking(importlib.machinery.PathFinder):
    """Finds what is installed but for ``names``, packages and their metadata."""

    names: frozenset[str] = frozenset()

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> Any:
        hidden = fullname.partition(".")[0] in cls.names
        return None if hidden else importlib.machinery.PathFinder.find_spec(fullname, path, target)

    @classmethod
    def find_distributions(cls, context: DistributionFinder.Context | None = None) -> Iterable[Distribution]:
        found = MetadataPathFinder.find_distributions(*([] if context is None else [context]))
        return (each for each in found if each.name not in cls.names)


def hide(*names: str) -> None:
    """From now on, packages of these names are not installed for this process."""
    assert not sys.modules.keys() & set(names)
    _Lacking.names = frozenset(names)
    sys.meta_path[:] = [_Lacking if each is importlib.machinery.PathFinder else each for each in sys.meta_path]
    assert not any(importlib.util.find_spec(name) for name in names)


def main(folder: Path, *names: str) -> None:
    hide(*names)
    from ft_assets.workers.training.train import train
    from tests.workers.training.conftest import make_bench

    facts = train(make_bench(folder, documents=20, epochs=1).context()).facts
    assert not sys.modules.keys() & set(names)
    print(json.dumps(facts))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
