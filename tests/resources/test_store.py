from pathlib import Path
from typing import Any

import pytest
from obstore.exceptions import GenericError

from ft_assets.worker import read_spec
from ft_resources.errors import CorruptArtifact, NoStore, StoreUnavailable, UserError
from ft_resources.store import Store
from ft_resources.store_marker import MARKER, open_store
from tests.resources.small_work import at_once


def test_create_has_exactly_one_winner_among_concurrent_callers(any_store: Store) -> None:
    won = at_once(8, lambda number: any_store.create("names/x.json", str(number).encode()))
    assert won.count(True) == 1
    assert any_store.get("names/x.json") == str(won.index(True)).encode()


def test_names_are_of_whole_objects_directly_in_a_folder(any_store: Store) -> None:
    assert any_store.names("names/x") == []
    for path in ("names/x/b.json", "names/x/a.json", "names/x/deeper/c.json", "names/xy.json"):
        any_store.put(path, b"{}")
    if any_store.root is not None:
        # What an upload in the making looks like.
        (any_store.root / "names" / "x" / "d.json#1").write_bytes(b"")
    assert any_store.names("names/x") == ["a.json", "b.json"]


def test_nothing_there_is_told_from_something_broken(any_store: Store) -> None:
    assert any_store.find_json("names/absent.json") is None
    any_store.put("names/broken.json", b"{")
    with pytest.raises(CorruptArtifact, match="not valid JSON"):
        any_store.find_json("names/broken.json")


@pytest.mark.parametrize("path", ["../x", "a/../b", "/etc/passwd", "a//b", ".hidden", "a/b|c", "a b", "a\n"])
def test_paths_that_could_climb_out_are_refused(any_store: Store, path: str) -> None:
    with pytest.raises(UserError, match="cannot be part of a path"):
        any_store.put(path, b"")


def test_files_go_up_and_come_down_whole(any_store: Store, tmp_path: Path) -> None:
    source = tmp_path / "big.bin"
    source.write_bytes(bytes(range(256)) * 80_000)
    any_store.upload(source, "t/big.bin")
    any_store.download("t/big.bin", tmp_path / "down" / "big.bin")
    assert (tmp_path / "down" / "big.bin").read_bytes() == source.read_bytes()
    assert list((tmp_path / "down").iterdir()) == [tmp_path / "down" / "big.bin"]


def test_listing_gives_files_and_folders_below_a_prefix(any_store: Store) -> None:
    for path in ("t/a/1", "t/a/2", "t/b/1", "u/c"):
        any_store.put(path, b"x")
    assert sorted(entry.path for entry in any_store.entries("t")) == ["t/a/1", "t/a/2", "t/b/1"]
    assert any_store.folders("t") == ["a", "b"]
    assert any_store.tenants() == ["t", "u"]
    assert any_store.folders("nothing") == []


def test_a_store_below_a_file_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="What to do"):
        Store(str(tmp_path / "file" / "store"))


@pytest.mark.parametrize(
    ("error", "what"),
    [
        ("Unable to open file /s/x#1: Permission denied (os error 13)", "read-only for this user"),
        ("Unable to open file /s/x#1: Read-only file system (os error 30)", "read-only for this user"),
        ("Unable to copy data to file: No space left on device (os error 28)", "it is full"),
        ("Unable to copy data to file: Disk quota exceeded (os error 122)", "it is full"),
        ("Unable to open file /s/x#1: Too many open files (os error 24)", "too many files are open"),
        ("Unable to open file /s/x#1: Stale file handle (os error 116)", "its disk fails"),
        ("Unable to copy data to file: Input/output error (os error 5)", "its disk fails"),
        ("Unable to rename file: Operation not permitted (os error 1)", "no hard links"),
    ],
)
def test_each_refusal_of_a_disk_is_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str, what: str
) -> None:
    store = Store(str(tmp_path))

    def refused(*_: object, **__: object) -> None:
        raise GenericError(f"Generic LocalFileSystem error: {error}")

    monkeypatch.setattr("obstore.put", refused)
    with pytest.raises(StoreUnavailable, match=what) as problem:
        store.create("names/x.json", b"{}")
    assert problem.value.remedy


def test_a_store_is_told_by_its_marker_from_a_place_without_one(any_store: Store, capsys: Any) -> None:
    url = f"{any_store.url}/inner"
    with pytest.raises(NoStore, match="no store here"):
        open_store(url)
    open_store(url, create=True)
    assert capsys.readouterr().err == f"created a new store at {url}\n"
    open_store(url, create=True)
    assert capsys.readouterr().err == ""
    assert open_store(url).root_folders() == []


def test_a_store_from_before_there_were_markers_is_adopted(any_store: Store, capsys: Any) -> None:
    any_store.put("names/dataset/acme.colours.v1.json", b"{}")
    assert not open_store(any_store.url).exists(MARKER)
    assert open_store(any_store.url, create=True).exists(MARKER)
    assert capsys.readouterr().err == ""
    assert any_store.root_folders() == ["names"]


def test_a_worker_creates_no_store(tmp_path: Path) -> None:
    with pytest.raises(NoStore):
        read_spec(f"file://{tmp_path}/store#acme/dataset/00/attempts/1/spec.json")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_url_is_refused() -> None:
    with pytest.raises(UserError, match="store URL is empty"):
        Store("")
