"""Copies of adapters are whole, never other bytes under one path, and make room for others unless they are in use."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import CorruptArtifact, StoreUnavailable
from ft_resources.serving.adapter_folders import AdapterFolders
from ft_resources.serving.errors import BadAdapter
from ft_resources.store import Store
from ft_resources.work import WorkRequest
from tests.made import leave

MIB = 1 << 20


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "adapters"


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Artifact]:
    artifacts = Artifacts(Store(str(tmp_path / "store")))

    def made(number: int, size: int = 3, weights: bytes = b"") -> Artifact:
        request = WorkRequest(
            asset="adapter", tenant="acme", code_version="1", inputs={}, params={"number": number}, label="x"
        )
        weights = weights or bytes([number]) * size
        return leave(
            artifacts,
            request,
            {"adapter_config.json": b"{}", "deep/adapter_model.safetensors": weights, "report/plot.svg": b"<svg/>"},
        )

    return made


def gone() -> Artifact:
    raise StoreUnavailable("the store is away")


def test_a_copy_has_the_content_and_needs_the_store_once(root: Path, make: Callable[..., Artifact]) -> None:
    adapter = make(1)
    folder = AdapterFolders(root, MIB).folder(adapter.digest, lambda: adapter)
    assert folder == root / adapter.digest
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        "adapter_config.json",
        "deep/adapter_model.safetensors",
    ]
    # Another process, or this one after a restart, while the store is away.
    assert AdapterFolders(root, MIB).folder(adapter.digest, gone) == folder
    assert [path.name for path in root.iterdir()] == [adapter.digest]


@pytest.mark.parametrize("damage", ["flipped", "missing", "added"])
def test_a_damaged_copy_is_made_again_and_never_given_out(
    root: Path, make: Callable[..., Artifact], damage: str
) -> None:
    adapter = make(1)
    first = AdapterFolders(root, MIB)
    weights = first.folder(adapter.digest, lambda: adapter) / "deep/adapter_model.safetensors"
    if damage == "flipped":
        weights.write_bytes(b"\1\1\2")
    elif damage == "missing":
        weights.unlink()
    else:
        (weights.parent / "more").write_bytes(b"x")
    first.keep(())
    with pytest.raises(StoreUnavailable):
        AdapterFolders(root, MIB).folder(adapter.digest, gone)
    folder = AdapterFolders(root, MIB).folder(adapter.digest, lambda: adapter)
    assert (folder / "deep/adapter_model.safetensors").read_bytes() == b"\1\1\1"
    assert not (folder / "deep/more").exists()


def test_one_with_a_weight_that_is_no_number_is_given_to_no_server(root: Path, make: Callable[..., Artifact]) -> None:
    weights = np.ones((64, 3), np.float16)
    whole, sick = make(1, weights=save({"a": weights})), make(2, weights=save({"a": weights, "b": weights / 0}))
    folders = AdapterFolders(root, MIB)
    folders.folder(whole.digest, lambda: whole)
    for _ in range(2):
        with pytest.raises(BadAdapter, match="the weights b are not finite"):
            folders.folder(sick.digest, lambda: sick)


def test_one_that_a_server_calls_damaged_is_made_again(root: Path, make: Callable[..., Artifact]) -> None:
    adapter = make(1)
    folders = AdapterFolders(root, MIB)
    weights = folders.folder(adapter.digest, lambda: adapter) / "deep/adapter_model.safetensors"
    weights.write_bytes(b"\1\1\2")
    folders.doubt(adapter.digest)
    folders.folder(adapter.digest, lambda: adapter)
    assert weights.read_bytes() == b"\1\1\1"


def test_other_bytes_than_those_promoted_are_refused(root: Path, make: Callable[..., Artifact]) -> None:
    promoted, other = make(1), make(2)
    with pytest.raises(CorruptArtifact, match="was promoted"):
        AdapterFolders(root, MIB).folder(promoted.digest, lambda: other)
    assert not root.exists() or not list(root.iterdir())


def test_a_damaged_artifact_leaves_nothing(root: Path, make: Callable[..., Artifact]) -> None:
    adapter = make(1)
    path = adapter.store.local_path(adapter.location("deep/adapter_model.safetensors"))
    path.write_bytes(b"\1\1\2")
    with pytest.raises(CorruptArtifact, match="does not match"):
        AdapterFolders(root, MIB).folder(adapter.digest, lambda: adapter)
    assert list(root.iterdir()) == []


def test_the_oldest_make_room_and_none_in_use_by_any_process_goes(root: Path, make: Callable[..., Artifact]) -> None:
    adapters = [make(number, 1000) for number in range(1, 6)]
    mine, others = AdapterFolders(root, 3500), AdapterFolders(root, 3500)
    for adapter in adapters[:3]:
        mine.folder(adapter.digest, lambda adapter=adapter: adapter)
    others.folder(adapters[0].digest, gone)
    mine.keep({adapters[2].digest})
    mine.folder(adapters[3].digest, lambda: adapters[3])
    assert {path.name for path in root.iterdir()} == {adapters[number].digest for number in (0, 2, 3)}
    mine.folder(adapters[4].digest, lambda: adapters[4])
    assert {path.name for path in root.iterdir()} == {adapters[number].digest for number in (0, 2, 3, 4)}, (
        "what is in use is over the limit together, and stays"
    )


def test_what_may_not_stay_goes_at_once_with_leftovers_of_killed_processes(
    root: Path, make: Callable[..., Artifact]
) -> None:
    adapter, kept = make(1), make(2)
    folders = AdapterFolders(root, MIB)
    for each in (adapter, kept):
        folders.folder(each.digest, lambda each=each: each)
    left = root / f".{adapter.digest}.{'0' * 32}"
    shutil.copytree(root / adapter.digest, left)
    # One that a server has, or another process uses, stays until it has no more.
    assert not folders.keep({adapter.digest}, but_not={adapter.digest})
    assert (root / adapter.digest).is_dir()
    assert folders.keep((), but_not={adapter.digest})
    assert [path.name for path in root.iterdir()] == [kept.digest]
