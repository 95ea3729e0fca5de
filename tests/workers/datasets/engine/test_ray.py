"""The Ray engine, on two nodes that share no disk: the same bytes as on this machine, whatever dies. One small cluster
for all tests."""

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ft_assets.settings.dataset.policy import DatasetPolicy, PersonalDataSettings
from ft_assets.settings.dataset.recogniser import NameSettings
from ft_assets.workers.datasets.curate import run_chunks_on_ray
from ft_assets.workers.datasets.engine import ray as engine
from ft_assets.workers.datasets.engine.cache import ChunkCache
from ft_assets.workers.datasets.engine.chunks import ChunkResult, ChunkTask
from ft_assets.workers.datasets.engine.local import CURATION
from ft_assets.workers.datasets.engine.ray import on_ray
from ft_assets.workers.datasets.screening.names import NameModel
from ft_assets.workers.datasets.similarity.items import ItemIndex
from ft_assets.workers.suites.asked import Asked
from ft_resources.errors import BadData, UserError, WorkFailed
from ft_resources.store import Store
from tests.workers.datasets.conftest import CurateFiles, WriteRows, prose, told
from tests.workers.datasets.screening.tiny_names import make_name_model
from tests.workers.ray_nodes import Nodes, two_nodes

pytestmark = pytest.mark.subprocess


@pytest.fixture(scope="module", autouse=True)
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with two_nodes(tmp_path_factory.getbasetemp()) as cluster:
        yield cluster


def test_two_nodes_and_this_machine_give_the_same_bytes(
    write: WriteRows, curated: CurateFiles, tmp_path: Path, nodes: Nodes
) -> None:
    rows = [told(number) for number in range(600)]
    rows[30] = rows[20]
    rows[40] = {**rows[10], "completion": f"{rows[10]['completion']} Write to ann@example.com."}
    rows[50]["completion"] = prose("leak", 60)
    ItemIndex.build([("quiz.v1", [Asked.of(prose("leak", 60), ["yes"])])], tmp_path / "items")
    inputs = {"index": tmp_path / "items", "suites": ("quiz.v1",), "suite_digests": ("0" * 64,)}
    file = write([*rows, b"no json"])
    policy = DatasetPolicy(on_bad_row="drop")
    here = curated(file, policy, chunk_bytes=16 << 10, **inputs)
    assert here.found("contamination") == {"contaminated:quiz.v1": 1}
    for _ in range(5):
        there = curated(file, policy, chunk_bytes=16 << 10, run_chunks=run_chunks_on_ray, **inputs)
        assert there.bytes == here.bytes
        assert (there.report, there.exhibits) == (here.report, here.exhibits)
        if nodes.both_took_part():
            break
    # Each has the test items on its own disk, once.
    assert [len(nodes.folders(number)) for number in (0, 1)] == [1, 1]


def test_a_name_model_of_this_machine_finds_the_same_on_the_nodes(
    write: WriteRows, curated: CurateFiles, tmp_path: Path
) -> None:
    pytest.importorskip("presidio_analyzer")
    names = NameModel(folder=str(make_name_model(tmp_path / "model")), digest="0" * 64, language="en")
    rows = [told(number) for number in range(150)]
    rows[20] = {
        "prompt": "Please ask Anna Smith about it",
        "completion": "My name is Olga Petrov and I live in Oxford.",
    }
    policy = DatasetPolicy(personal_data=PersonalDataSettings(action="scrub", names=NameSettings(model="tiny.v1")))
    file = write(rows)
    here = curated(file, policy, chunk_bytes=16 << 10, names=names)
    assert here.report.personal_data["name"] >= 2
    there = curated(file, policy, chunk_bytes=16 << 10, run_chunks=run_chunks_on_ray, names=names)
    assert (there.bytes, there.report) == (here.bytes, here.report)


def test_a_version_that_differs_in_few_rows_prepares_few_chunks_on_the_nodes(
    write: WriteRows, curated: CurateFiles, store: Store
) -> None:
    cache = ChunkCache(store_url=store.url, layout=store.layout, tenant="acme")
    cached: list[bool] = []

    def run_chunks(tasks: Iterator[ChunkTask]) -> Iterator[ChunkResult]:
        for result in run_chunks_on_ray(tasks):
            cached.append(result.cached)
            yield result

    rows = [told(number) for number in range(300)]
    later = write([*rows[:150], told(900), *rows[150:], told(901)], "later.jsonl")
    curated(write(rows), chunk_bytes=8 << 10, cache=cache, run_chunks=run_chunks)
    assert not any(cached)
    cached.clear()
    there = curated(later, chunk_bytes=8 << 10, cache=cache, run_chunks=run_chunks)
    assert 1 <= cached.count(False) <= 5 < len(cached)
    assert there.bytes == curated(later, chunk_bytes=8 << 10).bytes
    cached.clear()
    assert curated(later, chunk_bytes=8 << 10, cache=cache, run_chunks=run_chunks).bytes == there.bytes
    assert cached
    assert all(cached)


def test_results_come_in_the_items_order_and_few_items_are_read_ahead() -> None:
    read = []
    items = (read.append(number) or number for number in range(60))
    results = on_ray(CURATION, at_once=3)(_slower_at_first, items)
    assert next(results) == 0
    # Two tasks of three items for each of the two cores.
    assert len(read) == 12
    assert [0, *results] == list(range(60))


def test_a_user_s_error_arrives_as_it_is() -> None:
    with pytest.raises(BadData, match="unlucky") as caught:
        list(on_ray(CURATION)(_refuse_13, range(20)))
    assert (caught.value.where, caught.value.remedy) == ("row 13", "Leave it out.")


def test_the_task_of_a_killed_worker_is_repeated(nodes: Nodes) -> None:
    assert list(on_ray(CURATION)(_die_once, range(8))) == list(range(8))
    assert any((folder / "died").exists() for folder in nodes.scratch)


def test_a_task_that_kills_its_worker_each_time_ends_the_work() -> None:
    with pytest.raises(WorkFailed, match="a curation task on Ray ended without a result each time") as caught:
        list(on_ray(CURATION)(_die, [0]))
    assert caught.value.where == "dataset"


def test_a_node_of_another_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = engine.deciding_versions()
    monkeypatch.setattr(engine, "deciding_versions", lambda: {**mine, "kernels": "next"})
    with pytest.raises(WorkFailed, match=f"the node has kernels {mine['kernels']}, not next"):
        list(on_ray(CURATION)(abs, [-1]))


def test_without_a_cluster_the_variable_that_names_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(UserError, match="no Ray cluster") as caught:
        list(on_ray(CURATION)(abs, [-1]))
    assert caught.value.where == "RAY_ADDRESS"
    assert "FT_CURATION_ENGINE to local" in caught.value.remedy


def test_what_a_lost_node_had_is_done_by_the_others(nodes: Nodes, tmp_path_factory: pytest.TempPathFactory) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        lost = nodes.add(Path(scratch))
        found = []
        for number, folder in on_ray(CURATION)(_where, range(40)):
            found.append((number, folder))
            if folder == scratch and lost:
                nodes.cluster.remove_node(lost, allow_graceful=False)
                lost = None
    assert lost is None
    assert [number for number, _ in found] == list(range(40))


def _slower_at_first(number: int) -> int:
    time.sleep(0.2 if number == 0 else 0)
    return number


def _refuse_13(number: int) -> int:
    if number == 13:
        raise BadData("unlucky", where="row 13", remedy="Leave it out.")
    return number


def _die_once(number: int) -> int:
    """Dies once on each node that it runs on."""
    marker = Path(tempfile.gettempdir(), "died")
    if not marker.exists():
        marker.touch()
        _die(number)
    return number


def _die(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _where(number: int) -> tuple[int, str]:
    time.sleep(0.1)
    return number, tempfile.gettempdir()
