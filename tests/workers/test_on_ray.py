"""Datasets and packs on two Ray nodes that share no disk: the bytes are those of this machine, whatever dies.

All in one file, for which one small cluster is started.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
from ft_resources.worker_context import WorkResult
from tests.workers.datasets.conftest import CurateFiles, WriteRows, prose, told
from tests.workers.datasets.conftest import curated as curated
from tests.workers.datasets.conftest import store as store
from tests.workers.datasets.conftest import write as write
from tests.workers.datasets.screening.tiny_names import make_name_model
from tests.workers.packs.conftest import Workbench, chat
from tests.workers.packs.conftest import base_folder as base_folder
from tests.workers.packs.conftest import workbench as workbench
from tests.workers.ray_nodes import Nodes, die, die_once, refuse_13, two_nodes, where

pytestmark = pytest.mark.subprocess
TRAIN = [chat(f"what is {n} plus one?", f"it is {n + 1}") for n in range(100)]


@pytest.fixture(scope="module", autouse=True)
def cluster_of_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with two_nodes(tmp_path_factory.getbasetemp()) as nodes:
        yield nodes


@pytest.fixture
def nodes(cluster_of_two: Nodes) -> Nodes:
    return cluster_of_two.from_now()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packs go to the cluster however small they are."""
    from ft_assets.workers.packs.documents import examples, tokenize

    monkeypatch.setattr(tokenize, "_SMALL_BYTES", 0)
    monkeypatch.setattr(examples, "_BATCH", 3)
    monkeypatch.setenv("FT_PACK_PROCESSES", "1")


def test_two_nodes_and_this_machine_give_the_same_bytes(
    write: WriteRows, curated: CurateFiles, tmp_path: Path, nodes: Nodes
) -> None:
    rows = [told(number) for number in range(200)]
    rows[30] = rows[20]
    rows[40] = {**rows[10], "completion": f"{rows[10]['completion']} Write to ann@example.com."}
    rows[50]["completion"] = prose("leak", 60)
    ItemIndex.build([("quiz.v1", [Asked.of(prose("leak", 60), ["yes"])])], tmp_path / "items")
    inputs = {"index": tmp_path / "items", "suites": ("quiz.v1",), "suite_digests": ("0" * 64,)}
    file = write([*rows, b"no json"])
    policy = DatasetPolicy(on_bad_row="drop")
    here = curated(file, policy, chunk_bytes=4 << 10, **inputs)
    assert here.found("contamination") == {"contaminated:quiz.v1": 1}
    while not nodes.both_took_part():
        there = curated(file, policy, chunk_bytes=4 << 10, run_chunks=run_chunks_on_ray, **inputs)
        assert there.bytes == here.bytes
        assert (there.report, there.exhibits) == (here.report, here.exhibits)
    # Each has the test items on its own disk, once.
    assert [len(nodes.folders(number)) for number in (0, 1)] == [1, 1]


@pytest.mark.long
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

    rows = [told(number) for number in range(200)]
    later = write([*rows[:100], told(900), *rows[100:], told(901)], "later.jsonl")
    curated(write(rows), chunk_bytes=4 << 10, cache=cache, run_chunks=run_chunks)
    assert not any(cached)
    cached.clear()
    there = curated(later, chunk_bytes=4 << 10, cache=cache, run_chunks=run_chunks)
    assert 1 <= cached.count(False) <= 5 < len(cached)
    assert there.bytes == curated(later, chunk_bytes=4 << 10).bytes
    cached.clear()
    assert curated(later, chunk_bytes=4 << 10, cache=cache, run_chunks=run_chunks).bytes == there.bytes
    assert cached
    assert all(cached)


def test_results_come_in_the_items_order_and_few_items_are_read_ahead() -> None:
    read = []
    items = (read.append(number) or number for number in range(60))
    results = on_ray(CURATION, at_once=3)(abs, items)
    assert next(results) == 0
    # Two tasks of three items for each of the two cores.
    assert len(read) == 12
    assert [0, *results] == list(range(60))


def test_a_user_s_error_arrives_as_it_is() -> None:
    with pytest.raises(BadData, match="unlucky") as caught:
        list(on_ray(CURATION)(refuse_13, range(20)))
    assert (caught.value.where, caught.value.remedy) == ("row 13", "Leave it out.")


def test_the_task_of_a_killed_worker_is_repeated(nodes: Nodes) -> None:
    assert list(on_ray(CURATION)(die_once, range(8))) == list(range(8))
    assert any((folder / "died").exists() for folder in nodes.scratch)


def test_a_task_that_kills_its_worker_each_time_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    remote = ray.remote
    # Ray tries three times more, with a new worker each time.
    monkeypatch.setattr(ray, "remote", lambda **options: remote(max_retries=1, **options))
    with pytest.raises(WorkFailed, match="a curation task on Ray ended without a result each time") as caught:
        list(on_ray(CURATION)(die, [0]))
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


# A task whose worker is killed is repeated in the same way.
@pytest.mark.long
def test_what_a_lost_node_had_is_done_by_the_others(nodes: Nodes) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        lost = nodes.add(Path(scratch))
        found: list[int] = []

        def until_it_is_lost() -> Iterator[int]:
            number = 0
            while lost is not None:
                yield number
                number += 1
            yield from range(number, number + 10)

        for number, folder in on_ray(CURATION)(where, until_it_is_lost()):
            found.append(number)
            if folder == scratch and lost:
                nodes.lose(lost)
                lost = None
    assert found == list(range(len(found)))


def _bytes(result: WorkResult) -> dict[str, bytes]:
    folder = result.folder
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("form", ["chat", pytest.param("text", marks=pytest.mark.long)])
def test_two_nodes_and_this_machine_give_the_same_pack(
    workbench: Workbench, nodes: Nodes, small: None, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    rows: list[dict[str, Any]] = [{"messages": each} for each in TRAIN]
    if form == "text":
        rows = [{"text": f"The fox has {n} houses. " * (n % 9 + 1)} for n in range(100)]
    dataset = workbench.dataset_of({"train": rows[:-5], "validation": rows[-5:]})
    here = workbench.build(dataset, form=form, overlong="split" if form == "text" else "reject")
    monkeypatch.setenv("FT_PACK_ENGINE", "ray")
    while not nodes.both_took_part():
        there = workbench.build(dataset, form=form, overlong="split" if form == "text" else "reject")
        assert _bytes(there) == _bytes(here)
        assert there.facts == here.facts
    # Each has the tokenizer on its own disk, without the base's weights.
    for number in (0, 1):
        (folder,) = nodes.folders(number)
        assert {path.name for path in folder.iterdir()} <= {
            *("tokenizer.json", "tokenizer_config.json"),
            *("chat_template.jinja", "config.json"),
        }


def test_a_row_that_cannot_be_packed_is_named_across_nodes(
    workbench: Workbench, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = (
        "{% for m in messages %}{% if m.content|length > 99 %}{{ raise_exception('too long') }}{% endif %}"
        "{% generation %}{{ m.content }}<|end|>{% endgeneration %}{% endfor %}"
    )
    monkeypatch.setenv("FT_PACK_ENGINE", "ray")
    with pytest.raises(BadData, match="too long") as caught:
        workbench.build(workbench.dataset([*TRAIN[:40], chat("forbidden " * 12, "yes")]), chat_template=template)
    assert "row 41 of the upload" in caught.value.where
