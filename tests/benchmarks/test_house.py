"""The figures of the house: what is counted, and what is read of finished runs of tests."""

from copy import deepcopy
from pathlib import Path

import pytest

from benchmarks import house
from benchmarks.house import cross_floor, measure, read_suite, rooms
from tools.architecture import Sources

JUNIT = '<testsuites><testsuite tests="{tests}" time="{seconds}" failures="{failed}" errors="1"/></testsuites>'


@pytest.fixture(scope="module")
def sources() -> Sources:
    """Of the project: reading all of it takes seconds."""
    return Sources()


@pytest.fixture(autouse=True)
def _read_once(sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house, "Sources", lambda: sources)


@pytest.fixture
def junit(tmp_path: Path) -> tuple[Path, Path]:
    fast, everything = tmp_path / "fast.xml", tmp_path / "all.xml"
    fast.write_text(JUNIT.format(tests=80, seconds=12.5, failed=0))
    everything.write_text(JUNIT.format(tests=100, seconds=600, failed=2))
    return fast, everything


def test_no_import_climbs_and_rooms_are_those_of_the_picture(sources: Sources) -> None:
    assert cross_floor(sources) == []
    assert {"ft_assets.workers.packs", "ft_assets.records", "ft_resources"} <= rooms(sources)
    assert "ft_assets.workers" not in rooms(sources)


def test_an_import_of_a_floor_above_is_counted_and_one_inside_a_function_too(sources: Sources) -> None:
    above = next(each for imports in sources.imports.values() for each in imports if each.target == "ft_assets.worker")
    worse = deepcopy(sources)
    worse.imports["ft_assets.records.named"].append(above)
    (found,) = cross_floor(worse)
    assert found.startswith("ft_assets.records.named")


def test_times_failures_and_the_share_come_from_the_junit_files(junit: tuple[Path, Path]) -> None:
    fast, everything = junit
    assert read_suite(fast).seconds == 12.5
    figures = measure("--fast", str(fast), "--all", str(everything), str(everything))
    found = {each.key: each.ours for each in figures}
    assert (found["test_fast_s"], found["test_all_s"], found["tests_fast_share"]) == (12.5, 600, 0.8)
    # An error in each file, and two failures in each of the two runs of all tests.
    assert (found["test_items"], found["failures_of_runs"]) == (100, 1 + 2 * (2 + 1))
    assert (found["product_lines"] or 0) > 10_000


def test_times_that_nobody_measured_are_not_made_up() -> None:
    timed = {"test_fast_s", "test_all_s", "test_items", "failures_of_runs", "tests_fast_share"}
    assert {each.key for each in measure() if each.ours is None} == timed
