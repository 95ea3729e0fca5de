import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from ft_assets.workers.datasets.engine import carried
from ft_assets.workers.datasets.engine.carried import digest_of, kept_folder
from ft_assets.workers.datasets.engine.chunks_on_ray import _needed
from ft_assets.workers.datasets.engine.prepare import PrepareSettings
from ft_assets.workers.datasets.screening.names import NameModel

FILES = {"tokenizer.json": b"{}", "config.json": b'{"a": 1}', "ner/model": b"\x90"}


@pytest.fixture
def digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of FILES as they are on the sender's machine; this process is a new one on a node of its own."""
    (tmp_path / "there").mkdir()
    (tmp_path / "node").mkdir()
    for name, data in FILES.items():
        (tmp_path / "there" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "there" / name).write_bytes(data)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "node"))
    monkeypatch.setattr(carried, "_CHECKED", {})
    return digest_of({name: tmp_path / "there" / name for name in FILES})


def fetching(counted: list[int]) -> Callable[[], Mapping[str, pa.Buffer]]:
    def fetch() -> Mapping[str, pa.Buffer]:
        counted.append(1)
        return {name: pa.py_buffer(data) for name, data in FILES.items()}

    return fetch


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_files_are_fetched_once_for_all_processes_of_a_node(digest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[int] = []
    folder = kept_folder(digest, fetching(fetched))
    monkeypatch.setattr(carried, "_CHECKED", {})
    assert kept_folder(digest, fetching(fetched)) == folder
    assert contents(folder) == FILES
    assert len(fetched) == 1


def test_what_a_killed_process_had_half_written_is_seen_by_nobody(digest: str) -> None:
    def dies() -> Mapping[str, pa.Buffer]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept_folder(digest, dies)
    (part,) = (path for path in Path(tempfile.gettempdir()).iterdir() if path.is_dir())
    (part / "tokenizer.json").write_bytes(b"{")
    folder = kept_folder(digest, fetching([]))
    assert contents(folder) == FILES
    assert not part.exists()


def test_a_damaged_folder_is_replaced_by_the_next_process(digest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = kept_folder(digest, fetching([]))
    (folder / "tokenizer.json").write_bytes(b"{}}")
    monkeypatch.setattr(carried, "_CHECKED", {})
    assert contents(kept_folder(digest, fetching([]))) == FILES


def test_test_items_and_a_name_model_are_carried_and_tasks_name_them_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "model" / "ner").mkdir(parents=True)
    files = [tmp_path / "model" / "config.cfg", tmp_path / "model" / "ner" / "model"]
    for path in files:
        path.write_bytes(b"")
    names = NameModel(folder=str(tmp_path / "model"), digest="1", language="en")
    settings = PrepareSettings(policy={}, index=str(tmp_path / "items"), suites=(), names=names)
    needed = _needed(settings)
    assert needed is not None
    assert needed.files == {"index": tmp_path / "items", "names/config.cfg": files[0], "names/ner/model": files[1]}
    data, ended, moved = needed.moved((b"{}", True, settings), Path("/node"))
    assert (data, ended, moved.index, moved.names.folder) == (b"{}", True, "/node/index", "/node/names")
    assert _needed(PrepareSettings(policy={}, index=None, suites=())) is None
