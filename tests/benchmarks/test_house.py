"""The figures of the house: what is counted, and what is read of finished runs of tests."""

from pathlib import Path

import pytest

from benchmarks.house import cross_floor, measure, read_suite, rooms
from tools.architecture import Sources

JUNIT = '<testsuites><testsuite tests="{tests}" time="{seconds}"/></testsuites>'


@pytest.fixture
def junit(tmp_path: Path) -> tuple[Path, Path]:
    fast, everything = tmp_path / "fast.xml", tmp_path / "all.xml"
    fast.write_text(JUNIT.format(tests=80, seconds=12.5))
    everything.write_text(JUNIT.format(tests=100, seconds=600))
    return fast, everything


def test_no_import_climbs_and_rooms_are_those_of_the_picture() -> None:
    sources = Sources()
    assert cross_floor(sources) == []
    assert {"ft_assets.workers.packs", "ft_assets.records", "ft_resources"} <= rooms(sources)
    assert "ft_assets.workers" not in rooms(sources)


def test_an_import_of_a_floor_above_is_counted_and_one_inside_a_function_too(tmp_path: Path) -> None:
    sources = Sources()
    above = next(each for imports in sources.imports.values() for each in imports if each.target == "ft_assets.worker")
    sources.imports["ft_assets.records.named"].append(above)
    (found,) = cross_floor(sources)
    assert found.startswith("ft_assets.records.named")


def test_times_and_the_share_come_from_the_junit_files(junit: tuple[Path, Path]) -> None:
    fast, everything = junit
    assert read_suite(fast).seconds == 12.5
    found = {each.key: each for each in measure("--fast", str(fast), "--all", str(everything))}
    assert (found["test_fast_s"].ours, found["test_all_s"].ours, found["tests_fast_share"].ours) == (12.5, 600, 0.8)
    assert found["product_lines"].ours is not None
    assert found["product_lines"].ours > 10_000


def test_times_that_nobody_measured_are_not_made_up() -> None:
    assert {each.key for each in measure() if each.ours is None} == {"test_fast_s", "test_all_s", "tests_fast_share"}
