"""Saves are whole or absent: damage is skipped for an older good one, and a missing optimizer is an error."""

from pathlib import Path
from typing import Any

import pytest

from ft_assets.checkpoints import saves
from ft_assets.checkpoints.saves import FILES, IncompleteSave, newest_save, write_save
from ft_resources.artifacts import Address
from ft_resources.store import Store
from ft_resources.work import attempt_path

ADDRESS = Address(tenant="acme", asset="checkpoint", fingerprint="f" * 64)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


def record(step: int) -> dict[str, Any]:
    return {"step": step, "position": step * 4, "seconds": 1.0, "threads": 1, "software": {"python": "3"}}


def save(store: Store, folder: Path, step: int, attempt: int = 1, names: tuple[str, ...] = FILES) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(f"{name} of step {step} ".encode() * 50)
    write_save(store, attempt_path(ADDRESS, attempt), folder, record(step))


def newest_step(store: Store, scratch: Path, attempts: list[int]) -> int | None:
    found = newest_save(store, ADDRESS, attempts, scratch)
    return None if found is None else found.record.step


def flip_a_byte(store: Store, path: str, place: int | None = None) -> None:
    data = bytearray(store.get(path))
    data[len(data) // 2 if place is None else place] ^= 1
    store.put(path, bytes(data))


def test_no_saves_is_no_save(store: Store, tmp_path: Path) -> None:
    assert newest_step(store, tmp_path / "s", [1, 2]) is None


def test_the_newest_save_of_all_attempts_comes_back_with_its_files(store: Store, tmp_path: Path) -> None:
    save(store, tmp_path / "a", 5, attempt=1)
    save(store, tmp_path / "a", 9, attempt=1)
    save(store, tmp_path / "b", 7, attempt=2)
    found = newest_save(store, ADDRESS, [1, 2], tmp_path / "s")
    assert found is not None
    assert (found.attempt, found.record.step, found.record.position) == (1, 9, 36)
    assert (found.folder / saves.MODEL).read_bytes().startswith(b"model.safetensors of step 9")


@pytest.mark.parametrize("name", [*FILES, saves.RECORD])
def test_one_flipped_byte_in_any_file_falls_back_to_the_older_save(store: Store, tmp_path: Path, name: str) -> None:
    save(store, tmp_path / "a", 5)
    save(store, tmp_path / "a", 9)
    flip_a_byte(store, f"{attempt_path(ADDRESS, 1)}/saves/000009/{name}")
    assert newest_step(store, tmp_path / "s", [1]) == 5


def test_any_flipped_byte_of_the_record_falls_back_to_the_older_save(store: Store, tmp_path: Path) -> None:
    save(store, tmp_path / "a", 5)
    save(store, tmp_path / "a", 9)
    path = f"{attempt_path(ADDRESS, 1)}/saves/000009/{saves.RECORD}"
    whole = store.get(path)
    for place in range(0, len(whole), 23):
        flip_a_byte(store, path, place)
        assert newest_step(store, tmp_path / "s", [1]) == 5
        store.put(path, whole)
    assert newest_step(store, tmp_path / "s", [1]) == 9


@pytest.mark.parametrize("name", [*FILES, saves.RECORD])
def test_a_file_that_is_gone_falls_back_to_the_older_save(store: Store, tmp_path: Path, name: str) -> None:
    save(store, tmp_path / "a", 5)
    save(store, tmp_path / "a", 9)
    store.delete(f"{attempt_path(ADDRESS, 1)}/saves/000009/{name}")
    assert newest_step(store, tmp_path / "s", [1]) == 5


def test_an_upload_that_was_cut_off_is_no_save(store: Store, tmp_path: Path) -> None:
    class CutOff(Store):
        def create_json(self, path: str, value: Any) -> bool:
            raise KeyboardInterrupt

    save(store, tmp_path / "a", 5)
    with pytest.raises(KeyboardInterrupt):
        save(CutOff(store.url), tmp_path / "a", 9)
    assert newest_step(store, tmp_path / "s", [1]) == 5


@pytest.mark.parametrize("missing", [saves.OPTIMIZER, saves.RANDOM_STATES, saves.SCHEDULER])
def test_a_save_written_without_its_optimizer_is_an_error_and_not_a_fresh_start(
    store: Store, tmp_path: Path, missing: str
) -> None:
    save(store, tmp_path / "a", 5)
    save(store, tmp_path / "b", 9, names=tuple(name for name in FILES if name != missing))
    with pytest.raises(IncompleteSave, match=missing):
        newest_step(store, tmp_path / "s", [1])


def test_only_the_last_two_saves_of_an_attempt_are_kept(store: Store, tmp_path: Path) -> None:
    for step in (3, 6, 9, 12):
        save(store, tmp_path / "a", step)
    kept = {entry.path.split("/")[-2] for entry in store.entries(f"{attempt_path(ADDRESS, 1)}/saves")}
    assert kept == {"000009", "000012"}
    assert newest_step(store, tmp_path / "s", [1]) == 12


def test_a_resumed_attempt_replaces_the_saves_of_earlier_ones_once_it_has_enough(store: Store, tmp_path: Path) -> None:
    """Twenty preemptions of a large model would else leave forty saves of it."""
    for step in (3, 6):
        save(store, tmp_path / "a", step, attempt=1)
    save(store, tmp_path / "b", 9, attempt=2)
    assert len(store.folders(f"{attempt_path(ADDRESS, 1)}/saves")) == 2
    save(store, tmp_path / "b", 12, attempt=2)
    assert list(store.entries(f"{attempt_path(ADDRESS, 1)}/saves")) == []
    assert newest_step(store, tmp_path / "s", [1, 2]) == 12


def test_saving_a_step_again_replaces_a_damaged_save(store: Store, tmp_path: Path) -> None:
    save(store, tmp_path / "a", 5)
    flip_a_byte(store, f"{attempt_path(ADDRESS, 1)}/saves/000005/{saves.MODEL}")
    assert newest_step(store, tmp_path / "s", [1]) is None
    save(store, tmp_path / "a", 5)
    assert newest_step(store, tmp_path / "t", [1]) == 5
