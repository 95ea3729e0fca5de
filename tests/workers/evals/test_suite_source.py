"""Suites with data of the Hub: pinned, verified, stored, and offline from then on."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from ft_assets.workers.suites.registered import get_suite
from ft_assets.workers.suites.suites import add_suite, read_task, scored_texts
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import BadBase, BadRecipe
from ft_resources.hub import Hub
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from tests.fake_hub import FakeHub, hub_by
from tests.workers.evals.test_generated import TASK
from tests.workers.evals.test_instructions import ITEM

KEY, REPO = "sums.v1", "org/sums"
NAMES = {"train": "main/train-00000-of-00001.parquet", "test": "main/test-00000-of-00001.parquet"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"), create=True)


@pytest.fixture
def fake() -> FakeHub:
    return FakeHub()


@pytest.fixture(params=["fake", "http"])
def hub(request: pytest.FixtureRequest, fake: FakeHub) -> Iterator[Hub]:
    with hub_by(request.param, fake, kind="dataset") as hub:
        yield hub


@pytest.fixture
def commit(fake: FakeHub, tmp_path: Path) -> str:
    """A data set of sums as GSM8K's is laid out, with a file beside that no suite may hold."""
    folder = tmp_path / "data"
    (folder / "main").mkdir(parents=True)
    for split, name in NAMES.items():
        rows = [{"question": f"{split} {n}?", "answer": f"#### {n}"} for n in range(4)]
        pq.write_table(pa.Table.from_pylist(rows), folder / name)
    (folder / "load.py").write_text("raise SystemExit('code was run')")
    (folder / "input_data.jsonl").write_text(json.dumps(ITEM) + "\n")
    return fake.commit(REPO, folder)


def write_task(folder: Path, commit: str, **changes: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    task = {**TASK, "dataset_path": REPO, "revision": commit, "dataset_kwargs": {"data_files": NAMES}, **changes}
    (folder / "sums.yaml").write_text(yaml.safe_dump({key: value for key, value in task.items() if value is not None}))
    return folder


def test_files_of_a_pinned_revision_become_the_suites_own(
    store: Store, hub: Hub, fake: FakeHub, commit: str, tmp_path: Path
) -> None:
    done = add_suite(store, write_task(tmp_path / "sums", commit), KEY, "ann", hub=hub)
    assert (done.items, done.created) == (4, True)
    artifact = Artifacts(store).get(Address.parse(done.ref.address))
    stored = {"task.yaml", "main_train-00000-of-00001.parquet", "main_test-00000-of-00001.parquet"}
    assert set(artifact.manifest.files) == stored
    assert store.get_json(f"names/suite/{KEY}.json")["source"] == f"hub:{REPO}@{commit}"
    # From here on nobody asks the hub again.
    fake.commits.clear()
    folder = artifact.folder(tmp_path / "scratch")
    task: Any = read_task(folder / "task.yaml")
    assert task.dataset_path == "parquet"
    assert task.metadata["source"] == f"hub:{REPO}@{commit}"
    assert "test 3?" in scored_texts(folder)


def test_the_same_revision_is_the_same_suite_though_the_branch_moved(
    store: Store, fake: FakeHub, commit: str, tmp_path: Path
) -> None:
    first = add_suite(store, write_task(tmp_path / "sums", commit), KEY, "ann", hub=fake)
    (tmp_path / "data" / NAMES["test"]).write_bytes(b"other")
    fake.commit(REPO, tmp_path / "data")
    again = add_suite(store, write_task(tmp_path / "sums", commit), KEY, "bob", hub=fake)
    assert (again.ref, again.created) == (first.ref, False)


def test_a_kind_of_ours_may_have_its_file_there_too(store: Store, hub: Hub, commit: str, tmp_path: Path) -> None:
    folder = tmp_path / "follow"
    folder.mkdir()
    task = {"kind": "instructions", "dataset_path": REPO, "revision": commit, "file": "input_data.jsonl"}
    (folder / "follow.yaml").write_text(yaml.safe_dump(task))
    assert add_suite(store, folder, "follow.v1", "ann", hub=hub).items == 1


@pytest.mark.parametrize("revision", [None, "main", "v1.0", "0123abc", "G" * 40, 7])
def test_a_revision_that_can_move_is_refused_before_anything_is_fetched(
    store: Store, fake: FakeHub, commit: str, tmp_path: Path, revision: Any
) -> None:
    with pytest.raises(BadRecipe, match="its revision is not a commit"):
        add_suite(store, write_task(tmp_path / "sums", commit, revision=revision), KEY, "ann", hub=fake)
    assert fake.downloads == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"dataset_kwargs": {"data_files": {"test": "load.py"}}}, "'load.py' is not a data file"),
        ({"dataset_kwargs": {"data_files": {"test": "../x.parquet"}}}, "is not a data file"),
        ({"dataset_kwargs": {"data_files": {"test": "main/*.parquet"}}}, "is not a data file"),
        ({"dataset_kwargs": {"data_files": {"test": "https://a/b.parquet"}}}, "is not a data file"),
        ({"dataset_kwargs": {"data_files": {"test": "main/none.parquet"}}}, "has no file 'main/none.parquet'"),
        ({"dataset_kwargs": None}, "None is not a data file"),
        ({"dataset_kwargs": {"data_files": {**NAMES, "test": "input_data.jsonl"}}}, "several formats"),
        ({"dataset_path": "org/../etc"}, "is fetched from the Hub"),
        ({"trust_remote_code": True}, "trust_remote_code: unknown key"),
        ({"dataset_name": "main"}, "dataset_name: unknown key"),
    ],
)
def test_what_no_suite_may_hold_is_refused_and_nothing_is_stored(
    store: Store, fake: FakeHub, commit: str, tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    with pytest.raises(BadRecipe) as caught:
        add_suite(store, write_task(tmp_path / "sums", commit, **changes), KEY, "ann", hub=fake)
    assert expected in str(caught.value)
    with pytest.raises(Exception, match="there is no suite"):
        get_suite(store, KEY)


def test_a_file_that_arrives_changed_is_refused(
    store: Store, fake: FakeHub, commit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = fake.snapshot(REPO, commit)
    fake.tamper(REPO, commit, NAMES["test"])
    monkeypatch.setattr(fake, "snapshot", lambda *_: listed)
    with pytest.raises(BadBase, match="does not match"):
        add_suite(store, write_task(tmp_path / "sums", commit), KEY, "ann", hub=fake)
    assert store.find_json(f"names/suite/{KEY}.json") is None
