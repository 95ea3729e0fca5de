"""``python -m benchmarks house``: how large the project is, whether its floors hold, and how long its tests take.

Test times and failures are read from the junit files of earlier runs (``make test-fast ARGS=--junitxml=fast.xml`` and
``make test ARGS=--junitxml=all.xml``), or measured with ``--run``: ``--run --runs 6 --beside-loops 2`` runs all tests
six times, two of them beside busy loops, two for each core.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from xml.etree import ElementTree

from benchmarks.table import Figure
from tools.architecture import PACKAGES, ROOT, Sources

_LINES, _TEST_LINES, _FAST_S, _ALL_S, _SHARE = 88_000, 85_000, 150.0, 900.0, 0.7
# Floors whose folders are rooms of their own; each other floor is one room.
_OF_FOLDERS = ("ft_assets.control", "ft_assets.workers")


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """A finished run of tests: how many, how many seconds on the clock, and how many failed or ended in an error."""

    tests: int
    seconds: float
    failures: int
    # Beside busy loops its seconds say nothing.
    busy: bool = False


def measure(*arguments: str) -> list[Figure]:
    """The house's figures; those of tests are None where neither a file nor ``--run`` is given."""
    asked = _arguments(arguments)
    sources = Sources()
    loops = [number < asked.beside_loops for number in reversed(range(asked.runs))]
    fast = [read_suite(file) for file in asked.fast] or ([_run("test-fast")] if asked.run else [])
    all_tests = [read_suite(file) for file in asked.all] or [_run("test", busy) for busy in loops if asked.run]
    share = fast[0].tests / all_tests[0].tests if fast and all_tests else None
    lines, test_lines = python_lines(*PACKAGES), python_lines("tests")
    against = len(cross_floor(sources))
    needless = len(sources.needless)
    items = all_tests[0].tests if all_tests else None
    failures = sum(suite.failures for suite in (*fast, *all_tests)) if fast or all_tests else None
    runs = f"tests that failed, of {len(fast)} runs of make test-fast and {len(all_tests)} of make test"
    return [
        _bounded("product_lines", "lines of product code", lines, "<=", _LINES),
        _bounded("test_lines", "lines of tests", test_lines, "<=", _TEST_LINES),
        Figure(key="rooms", what="rooms", ours=len(rooms(sources)), peer=None, peer_is="", goal="", met=None),
        _bounded("cross_floor_violations", "imports from a floor above", against, "<=", 0),
        _bounded("in_function_project_imports", "project imports in functions for nothing heavy", needless, "<=", 0),
        _bounded("test_fast_s", "seconds of make test-fast", _seconds(fast), "<=", _FAST_S),
        _bounded("test_all_s", "seconds of make test", _seconds(all_tests), "<=", _ALL_S),
        Figure(key="test_items", what="tests of make test", ours=items, peer=None, peer_is="", goal="", met=None),
        _bounded("failures_of_runs", runs, failures, "<=", 0),
        _bounded("tests_fast_share", "share of tests in make test-fast", share, ">=", _SHARE),
    ]


def python_lines(*folders: str) -> int:
    """Lines of the tracked Python files below folders of the project."""
    listed = subprocess.check_output(["git", "ls-files", *folders], cwd=ROOT, text=True).split()
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
    suites = [each.attrib for each in ElementTree.parse(file).getroot().iter("testsuite")]
    return Suite(
        tests=sum(int(each["tests"]) for each in suites),
        seconds=sum(float(each["time"]) for each in suites),
        failures=sum(int(each.get(kind, 0)) for each in suites for kind in ("failures", "errors")),
    )


def _room(module: str) -> str:
    parts = module.split(".")
    if parts[0] != "ft_assets":
        return parts[0]
    floor = ".".join(parts[:2])
    return ".".join(parts[:3]) if floor in _OF_FOLDERS else floor


def _run(target: str, busy: bool = False) -> Suite:
    """A run by make, as everybody runs it; failed tests are counted and do not end the measurement."""
    with tempfile.TemporaryDirectory(prefix="ft-house-") as folder, _busy_loops(2 * (os.cpu_count() or 1) * busy):
        report = Path(folder) / "junit.xml"
        subprocess.run(["make", target, f"ARGS=--junitxml={report}"], cwd=ROOT, stdout=sys.stderr, check=False)
        return replace(read_suite(report), busy=busy)


@contextmanager
def _busy_loops(count: int) -> Iterator[None]:
    """Processes that compute for ever, beside what the block does."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _seconds(suites: Sequence[Suite]) -> float | None:
    """The median of the runs that had the machine for themselves."""
    quiet = [suite.seconds for suite in suites if not suite.busy]
    return median(quiet) if quiet else None


def _bounded(key: str, what: str, ours: float | None, sign: str, bound: float) -> Figure:
    met = None if ours is None else (ours <= bound if sign == "<=" else ours >= bound)
    return Figure(key=key, what=what, ours=ours, peer=bound, peer_is="the bound", goal=f"{sign} {bound:g}", met=met)


def _arguments(arguments: tuple[str, ...]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks house")
    parser.add_argument(
        "--fast", type=Path, nargs="*", default=[], metavar="FILE", help="junit files of make test-fast"
    )
    parser.add_argument("--all", type=Path, nargs="*", default=[], metavar="FILE", help="junit files of make test")
    parser.add_argument("--run", action="store_true", help="run the tests of which no file is given")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="with --run: how often make test is run")
    parser.add_argument("--beside-loops", type=int, default=0, metavar="N", help="how many of them beside busy loops")
    return parser.parse_args(arguments)
