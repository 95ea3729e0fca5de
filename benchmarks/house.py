"""``python -m benchmarks house``: how large the project is, whether its floors hold, and how long its tests take.

Test times are read from the junit files of two earlier runs (``make test-fast ARGS=--junitxml=fast.xml`` and ``make
test ARGS=--junitxml=all.xml``), or measured with ``--run``, which takes as long as they do.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.table import Figure
from tools.architecture import PACKAGES, ROOT, Sources

_LINES, _FAST_S, _ALL_S, _SHARE = 57_000, 240.0, 1200.0, 0.7
# Floors whose folders are rooms of their own; each other floor is one room.
_OF_FOLDERS = ("ft_assets.control", "ft_assets.workers")


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """A finished run of tests: how many and how many seconds on the clock."""

    tests: int
    seconds: float


def measure(*arguments: str) -> list[Figure]:
    """The house's figures; those of tests are None where neither a file nor ``--run`` is given."""
    asked = _arguments(arguments)
    sources = Sources()
    fast, everything = _suite(asked.fast, asked.run, "--fast"), _suite(asked.all, asked.run)
    share = fast.tests / everything.tests if fast and everything else None
    lines = product_lines()
    against = len(cross_floor(sources))
    needless = len(sources.needless)
    return [
        _bounded("product_lines", "lines of product code", lines, "<=", _LINES),
        Figure(key="rooms", what="rooms", ours=len(rooms(sources)), peer=None, peer_is="", goal="", met=None),
        _bounded("cross_floor_violations", "imports from a floor above", against, "<=", 0),
        _bounded("in_function_project_imports", "project imports in functions for nothing heavy", needless, "<=", 0),
        _bounded("test_fast_s", "seconds of make test-fast", fast.seconds if fast else None, "<=", _FAST_S),
        _bounded("test_all_s", "seconds of make test", everything.seconds if everything else None, "<=", _ALL_S),
        _bounded("tests_fast_share", "share of tests in make test-fast", share, ">=", _SHARE),
    ]


def product_lines() -> int:
    """Lines of the tracked Python files of the three packages."""
    listed = subprocess.check_output(["git", "ls-files", *PACKAGES], cwd=ROOT, text=True).split()
    files = [ROOT / name for name in listed if name.endswith(".py")]
    return sum(file.read_bytes().count(b"\n") for file in files if file.exists())


def rooms(sources: Sources) -> set[str]:
    """The folders that imports are counted between."""
    folders = {module.rpartition(".")[0] for module in sources.modules}
    return {room for module in sources.modules if (room := _room(module)) in folders} - {*_OF_FOLDERS, "ft_assets"}


def cross_floor(sources: Sources) -> list[str]:
    """Imports of a module on a floor above, those inside functions included, by the contract in pyproject.toml."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(each["layers"] for each in settings["contracts"] if each["name"].startswith("Floors"))
    heights = {
        name: len(layers) - number for number, layer in enumerate(layers) for name in re.findall(r"[\w.]+", layer)
    }

    def height(module: str) -> int | None:
        while module and module not in heights:
            module = module.rpartition(".")[0]
        return heights.get(module)

    found = []
    for module, imports in sources.imports.items():
        for each in imports:
            own, other = height(module), height(each.target) if each.target in sources.modules else None
            if own is not None and other is not None and other > own:
                found.append(f"{module}, line {each.line}: {each.target}")
    return found


def read_suite(file: Path) -> Suite:
    """What a junit file says of its run. Raises OSError or ElementTree.ParseError for any other file."""
    suites = ElementTree.parse(file).getroot().iter("testsuite")
    found = [(int(each.attrib["tests"]), float(each.attrib["time"])) for each in suites]
    return Suite(tests=sum(tests for tests, _ in found), seconds=sum(seconds for _, seconds in found))


def _room(module: str) -> str:
    parts = module.split(".")
    if parts[0] != "ft_assets":
        return parts[0]
    floor = ".".join(parts[:2])
    return ".".join(parts[:3]) if floor in _OF_FOLDERS else floor


def _suite(file: Path | None, run: bool, *options: str) -> Suite | None:
    """Of the file where one is given; else by running the tests, where that is asked for."""
    if file is not None or not run:
        return read_suite(file) if file is not None else None
    with tempfile.TemporaryDirectory(prefix="ft-house-") as folder:
        report = Path(folder) / "junit.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
        subprocess.run([*command, *options, f"--junitxml={report}"], cwd=ROOT, stdout=sys.stderr, check=True)
        return read_suite(report)


def _bounded(key: str, what: str, ours: float | None, sign: str, bound: float) -> Figure:
    met = None if ours is None else (ours <= bound if sign == "<=" else ours >= bound)
    return Figure(key=key, what=what, ours=ours, peer=bound, peer_is="the bound", goal=f"{sign} {bound:g}", met=met)


def _arguments(arguments: tuple[str, ...]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks house")
    parser.add_argument("--fast", type=Path, metavar="FILE", help="junit file of make test-fast")
    parser.add_argument("--all", type=Path, metavar="FILE", help="junit file of make test")
    parser.add_argument("--run", action="store_true", help="run the tests of which no file is given")
    return parser.parse_args(arguments)
