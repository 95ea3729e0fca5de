"""The Ray engine: the same bytes as on this machine. One small Ray of its own for all tests."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.engine.ray import run_chunks_on_ray
from ft_assets.workers.datasets.similarity.ngrams import GramIndex
from tests.workers.datasets.conftest import CurateFiles, WriteRows, prose, told

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
pytestmark = pytest.mark.subprocess


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield
    ray.shutdown()


def test_ray_and_this_machine_give_the_same_bytes(write: WriteRows, curated: CurateFiles, tmp_path: Path) -> None:
    rows = [told(number) for number in range(600)]
    rows[30] = rows[20]
    rows[40] = {**rows[10], "completion": f"{rows[10]['completion']} Write to ann@example.com."}
    rows[50]["completion"] = prose("leak", 60)
    GramIndex.build([("quiz.v1", pa.array([prose("leak", 60)], pa.large_string()))], tmp_path / "suites.grams")
    inputs = {"index": tmp_path / "suites.grams", "suites": ("quiz.v1",), "suite_digests": ("0" * 64,)}
    file = write([*rows, b"no json"])
    policy = DatasetPolicy(on_bad_row="drop")
    here = curated(file, policy, chunk_bytes=16 << 10, **inputs)
    there = curated(file, policy, chunk_bytes=16 << 10, run_chunks=run_chunks_on_ray, **inputs)
    assert here.found("contamination") == {"contaminated:quiz.v1": 1}
    assert there.bytes == here.bytes
    assert (there.report, there.exhibits) == (here.report, here.exhibits)


def test_more_chunks_than_are_handed_over_at_once_come_back_in_order(
    write: WriteRows, curated: CurateFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ft_assets.workers.datasets.engine.ray._WINDOW", 5)
    file = write([told(number) for number in range(300)])
    here = curated(file, chunk_bytes=8 << 10)
    there = curated(file, chunk_bytes=8 << 10, run_chunks=run_chunks_on_ray)
    assert there.bytes == here.bytes
