"""Saves are whole or absent: damage is skipped for an older good one, and a missing optimizer is an error."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.workers.training import saves
from ft_assets.workers.training.journal import Journal
from ft_assets.workers.training.saved_rows import LANES, LEDGER, STEPS, Books, complete, kind_of
from ft_assets.workers.training.saves import FILES, IncompleteSave, SaveWriter, newest_save
from ft_resources.artifacts import Address
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from ft_resources.work import attempt_path

ADDRESS = Address(tenant="acme", asset="checkpoint", fingerprint="f" * 64)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"), create=True)


def record(step: int) -> dict[str, Any]:
    return {"step": step, "position": step * 4, "seconds": 1.0, "threads": 1, "software": {"python": "3"}}


class Saving:
    """The saves of one attempt, whose ledger has a line for each step."""

    def __init__(self, store: Store, folder: Path, attempt: int = 1) -> None:
        self.folder, self.journal, self.books = folder / f"saving-{attempt}", Journal(), Books()
        self.writer = SaveWriter(store, attempt_path(ADDRESS, attempt))

    def save(self, step: int, names: tuple[str, ...] = FILES) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (self.folder / name).write_bytes(f"{name} of step {step} ".encode() * 50)
        for done in range(len(self.journal.ledger) + 1, step + 1):
            self.journal.ledger.append(f"line of step {done}")
            self.journal.rows.append({"step": done})
        self.writer.write(self.folder, record(step), self.books.turn(self.journal))


def save(store: Store, folder: Path, step: int, attempt: int = 1, names: tuple[str, ...] = FILES) -> None:
    Saving(store, folder, attempt).save(step, names)


def saved_files(store: Store, attempt: int = 1) -> list[str]:
    """Every stored file that belongs to a save."""
    path = attempt_path(ADDRESS, attempt)
    return sorted(entry.path for folder in ("saves", "books") for entry in store.entries(f"{path}/{folder}"))


def newest_step(store: Store, scratch: Path, attempts: list[int]) -> int | None:
    found = newest_save(store, ADDRESS, attempts, scratch)
    return None if found is None else found.record.step


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


@given(data=st.data())
def test_a_flipped_bit_anywhere_in_a_save_or_its_books_costs_that_save_and_never_the_older(
    store: Store, tmp_path: Path, data: st.DataObject
) -> None:
    saving = Saving(store, tmp_path)
    for step in (2, 5, 9):
        saving.save(step)
    path = data.draw(st.sampled_from(saved_files(store)))
    whole = store.get(path)
    place = data.draw(st.integers(0, len(whole) - 1))
    damaged = bytearray(whole)
    damaged[place] ^= 1 << data.draw(st.integers(0, 7))
    store.put(path, bytes(damaged))
    found = newest_save(store, ADDRESS, [1], tmp_path / "s")
    assert found is not None
    step = found.record.step
    assert (found.folder / LEDGER).read_text().splitlines() == [f"line of step {done + 1}" for done in range(step)]
    assert len((found.folder / STEPS).read_text().splitlines()) == step
    # What was damaged belongs to the other of the two.
    own = {f"/{step:06d}/{name}" for name in [*found.record.files, saves.RECORD]} | set(found.record.books)
    assert not path.endswith(tuple(own))
    store.put(path, whole)


@given(growth=st.lists(st.integers(1, 9), min_size=1, max_size=60))
def test_books_are_whole_in_every_save_and_cost_little_however_many_there_are(growth: list[int]) -> None:
    journal, books, stored, written = Journal(), Books(), dict[str, list[Any]](), 0
    for more in growth:
        for _ in range(more):
            journal.ledger.append(str(len(journal.ledger)))
            journal.rows.extend([{"step": len(journal.ledger)}] * (1 + len(journal.ledger) % 2))
        page = books.turn(journal)
        stored |= {chunk.name: list(items) for chunk, items in page.new}
        written += sum(len(items) for _, items in page.new)
        names = [chunk.name for chunk in page.chunks]
        assert complete(names)
        for kind, items in ((LEDGER, journal.ledger), (STEPS, journal.rows)):
            assert [each for name in names if kind_of(name) == kind for each in stored[name]] == items
        assert len(names) <= 2 * (2 + len(journal.rows).bit_length())
    lines = len(journal.ledger) + len(journal.rows)
    assert written <= LANES * lines * (1 + lines.bit_length())


@pytest.mark.parametrize("lost", range(6))
def test_books_with_a_gap_are_not_complete(lost: int) -> None:
    journal, books = Journal(), Books()
    for more in (8, 4, 2):
        journal.ledger += ["x"] * more
        journal.rows += [{}] * more
        books.turn(journal)
        page = books.turn(journal)
    names = [chunk.name for chunk in page.chunks]
    assert len(names) == 6
    assert complete(names)
    assert not complete(names[:lost] + names[lost + 1 :]) or names[lost].endswith("000000014.jsonl")


@pytest.mark.parametrize("name", [*FILES, saves.RECORD])
def test_a_file_that_is_gone_falls_back_to_the_older_save(store: Store, tmp_path: Path, name: str) -> None:
    save(store, tmp_path / "a", 5)
    save(store, tmp_path / "a", 9)
    store.delete(f"{attempt_path(ADDRESS, 1)}/saves/000009/{name}")
    assert newest_step(store, tmp_path / "s", [1]) == 5


def test_an_upload_that_was_cut_off_is_no_save(store: Store, tmp_path: Path) -> None:
    class CutOff(Store):
        def create(self, path: str, data: bytes) -> bool:
            raise KeyboardInterrupt

    save(store, tmp_path / "a", 5)
    with pytest.raises(KeyboardInterrupt):
        save(CutOff(store.url, layout=store.layout), tmp_path / "a", 9)
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
    saving = Saving(store, tmp_path)
    for step in (3, 6, 9, 12):
        saving.save(step)
    kept = {entry.path.split("/")[-2] for entry in store.entries(f"{attempt_path(ADDRESS, 1)}/saves")}
    assert kept == {"000009", "000012"}
    assert newest_step(store, tmp_path / "s", [1]) == 12


def test_a_resumed_attempt_replaces_the_saves_of_earlier_ones_once_it_has_enough(store: Store, tmp_path: Path) -> None:
    """Else twenty preemptions of a large model would leave forty saves."""
    first, second = Saving(store, tmp_path, attempt=1), Saving(store, tmp_path, attempt=2)
    for step in (3, 6):
        first.save(step)
    second.save(9)
    assert len(store.folders(f"{attempt_path(ADDRESS, 1)}/saves")) == 2
    second.save(12)
    assert saved_files(store, attempt=1) == []
    assert newest_step(store, tmp_path / "s", [1, 2]) == 12


def test_saving_a_step_again_replaces_a_damaged_save(store: Store, tmp_path: Path) -> None:
    save(store, tmp_path / "a", 5)
    path = f"{attempt_path(ADDRESS, 1)}/saves/000005/{saves.MODEL}"
    store.put(path, store.get(path)[:-1] + b"?")
    assert newest_step(store, tmp_path / "s", [1]) is None
    save(store, tmp_path / "a", 5)
    assert newest_step(store, tmp_path / "t", [1]) == 5
