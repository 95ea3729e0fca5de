"""Training checkpoints in the store: complete or absent, and verified on read.

A save is a folder ``<attempt>/saves/<step>/``: its files, then ``save.json`` (create-only, written last), which names
each file with size and sha256. A folder without ``save.json`` is not a save. The append-only lists, which saves share,
are in ``<attempt>/books/`` (see ``saved_rows.py``); ``save.json`` names those files too.
"""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ft_assets.workers.training.saved_rows import LANES, LEDGER, STEPS, Page, complete, kind_of
from ft_resources.artifacts import Address, FileEntry, FileName
from ft_resources.canonical import digest
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.records import Record
from ft_resources.store import Store
from ft_resources.work import attempt_path

RECORD = "save.json"
KEPT = LANES

MODEL, OPTIMIZER, OPTIMIZER_SETTINGS = "model.safetensors", "optimizer.safetensors", "optimizer.json"
SCHEDULER, RANDOM, RANDOM_STATES = "scheduler.json", "random.json", "random.safetensors"
FILES = (MODEL, OPTIMIZER, OPTIMIZER_SETTINGS, SCHEDULER, RANDOM, RANDOM_STATES)
"""Files of a save beside the append-only lists; ``state.py`` writes and reads them."""
REMEDY = "Delete this save's folder to resume from an older one, or all saves to start again."


class IncompleteSave(UserError):
    """An intact save that lacks something exact resumption needs, such as the optimizer's state."""


class SaveRecord(Record):
    """``save.json``.

    ``position`` counts windows since the start of the run, ``seconds`` the training time so far, over all attempts.
    ``seal`` is the digest of all other fields: a damaged position would repeat or skip data silently.
    """

    WHAT: ClassVar[str] = RECORD

    version: int = 1
    step: int
    position: int
    seconds: float
    threads: int
    software: dict[str, str]
    files: dict[FileName, FileEntry]
    books: dict[FileName, FileEntry]
    seal: str = ""

    def expected_seal(self) -> str:
        return digest(self.model_dump(mode="json", exclude={"seal"}))


@dataclass(frozen=True, kw_only=True, slots=True)
class Save:
    """A verified save: its record and a local, read-only folder with its files.

    The append-only lists are there as two complete files, ``LEDGER`` and ``STEPS``.
    """

    attempt: int
    record: SaveRecord
    folder: Path


class SaveWriter:
    """Writes the saves of the attempt at path ``attempt``, one at a time."""

    def __init__(self, store: Store, attempt: str) -> None:
        self._store, self._attempt = store, attempt
        self._entries: dict[str, FileEntry] = {}
        """The books' files that are stored."""

    def write(self, folder: Path, record: dict[str, Any], page: Page) -> SaveRecord:
        """Upload the files of ``folder`` and the new chunks of ``page`` as a save, then drop what it replaces.

        ``record`` holds SaveRecord's fields except ``files``, ``books`` and ``seal``. Raises StoreUnavailable where the
        store refuses.
        """
        store, files = self._store, {path.name: FileEntry.of(path) for path in sorted(folder.iterdir())}
        for path in page.write(folder.with_name(f"{folder.name}-books")):
            self._entries[path.name] = FileEntry.of(path)
            store.upload(path, f"{self._attempt}/books/{path.name}")
            path.unlink()
        books = {chunk.name: self._entries[chunk.name] for chunk in page.chunks}
        whole = SaveRecord(**record, files=files, books=books)
        whole = whole.model_copy(update={"seal": whole.expected_seal()})
        place = f"{self._attempt}/saves/{whole.step:06d}"
        # A damaged save of this step may exist: it must not be valid while its files change.
        store.delete(f"{place}/{RECORD}")
        for name in files:
            store.upload(folder / name, f"{place}/{name}")
        whole.create(store, f"{place}/{RECORD}")
        self._keep_newest()
        return whole

    def _keep_newest(self) -> None:
        """Remove all but the attempt's last saves, and those of earlier attempts once it has enough of its own.

        Each goes with its record first, so that none is ever half there, and its books last.
        """
        store, files = self._store, dict[int, list[str]]()
        for entry in store.entries(f"{self._attempt}/saves"):
            files.setdefault(int(entry.path.rsplit("/", 2)[-2]), []).append(entry.path)
        kept = sorted(files)[-KEPT:]
        stale = [path for step in sorted(files)[:-KEPT] for path in files[step]]
        unused = self._unused_books(kept)
        attempts, _, number = self._attempt.rpartition("/")
        if len(files) >= KEPT:
            for earlier in range(1, int(number)):
                stale += [entry.path for entry in store.entries(f"{attempts}/{earlier:04d}/saves")]
                unused += [entry.path for entry in store.entries(f"{attempts}/{earlier:04d}/books")]
        for path in [*sorted(stale, key=lambda path: not path.endswith(f"/{RECORD}")), *unused]:
            store.delete(path)

    def _unused_books(self, kept: list[int]) -> list[str]:
        """Chunks that no kept save needs; empty while a kept save cannot be read, as its needs are unknown."""
        needed: set[str] = set()
        for step in kept:
            try:
                record = _read_record(self._store, f"{self._attempt}/saves/{step:06d}")
            except CorruptArtifact:
                return []
            needed |= set(record.books) if record else set()
        paths = [entry.path for entry in self._store.entries(f"{self._attempt}/books")]
        return [path for path in paths if path.rsplit("/", 1)[-1] not in needed]


def newest_save(store: Store, address: Address, attempts: Iterable[int], scratch: Path) -> Save | None:
    """The valid save with the highest step among these attempts, or None; damaged ones are reported on stdout.

    Raises IncompleteSave for a valid save without a file that resuming needs: continuing from it would silently train
    something else.
    """
    for _, attempt, place in _places(store, address, attempts):
        try:
            record = _read_record(store, place)
            if record is None:
                continue
            folder = _fetch(store, place, record, scratch / f"save-{attempt}-{record.step}")
        except CorruptArtifact as error:
            print(f"skipping a damaged save: {error.where}: {error.what}", flush=True)
            continue
        missing = sorted(set(FILES) - set(record.files)) or ([] if complete(record.books) else [LEDGER])
        if missing:
            raise IncompleteSave(f"the save has no {', '.join(missing)}", where=place, remedy=REMEDY)
        return Save(attempt=attempt, record=record, folder=folder)
    return None


def newest_place(store: Store, address: Address, attempts: Iterable[int]) -> str:
    """Path of the complete save with the highest step among these attempts, not verified; "" if there is none."""
    found = _places(store, address, attempts)
    return next((place for _, _, place in found if store.exists(f"{place}/{RECORD}")), "")


def _places(store: Store, address: Address, attempts: Iterable[int]) -> list[tuple[int, int, str]]:
    """Step, attempt and path of each folder of a save, the highest step first."""
    found = []
    for attempt in attempts:
        saves = f"{attempt_path(address, attempt)}/saves"
        found += [(int(step), attempt, f"{saves}/{step}") for step in store.folders(saves)]
    return sorted(found, reverse=True)


def _read_record(store: Store, place: str) -> SaveRecord | None:
    record = SaveRecord.find(store, f"{place}/{RECORD}")
    if record is None:
        return None
    if record.seal != record.expected_seal() or place.rsplit("/", 1)[-1] != f"{record.step:06d}":
        raise CorruptArtifact("save.json was altered", where=f"{place}/{RECORD}")
    return record


def _fetch(store: Store, place: str, record: SaveRecord, scratch: Path) -> Path:
    """A local copy of the save's files. Raises CorruptArtifact for a missing or damaged one."""
    scratch.mkdir(parents=True, exist_ok=True)
    for name, entry in record.files.items():
        entry.download(store, f"{place}/{name}", scratch / name)
    attempt = place.rsplit("/", 2)[0]
    chunk = scratch / "chunk"
    with (scratch / LEDGER).open("wb") as ledger, (scratch / STEPS).open("wb") as steps:
        for name, entry in sorted(record.books.items()):
            entry.download(store, f"{attempt}/books/{name}", chunk)
            with chunk.open("rb") as file:
                shutil.copyfileobj(file, ledger if kind_of(name) == LEDGER else steps)
    chunk.unlink(missing_ok=True)
    return scratch
