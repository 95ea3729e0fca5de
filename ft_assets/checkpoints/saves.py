"""Training checkpoints in the store: complete or absent, verified on read, and never trusted half.

A save lies in ``<attempt>/saves/<step>/``: its files, then ``save.json``, create-only and last, which names each
file with its size and sha256. A folder without ``save.json`` is no save.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ft_resources.artifacts import Address, FileEntry
from ft_resources.canonical import digest, sha256_file
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.store import Store
from ft_resources.work import attempt_path

RECORD = "save.json"
KEPT = 2

MODEL, OPTIMIZER, OPTIMIZER_SETTINGS = "model.safetensors", "optimizer.safetensors", "optimizer.json"
SCHEDULER, RANDOM, RANDOM_STATES = "scheduler.json", "random.json", "random.safetensors"
LEDGER, STEPS = "ledger.jsonl", "steps.jsonl"
FILES = (MODEL, OPTIMIZER, OPTIMIZER_SETTINGS, SCHEDULER, RANDOM, RANDOM_STATES, LEDGER, STEPS)
"""What a save consists of; ``state.py`` writes and reads them."""


class IncompleteSave(UserError):
    """A save that is intact but lacks what an exact continuation needs, such as the optimizer's state."""


class SaveRecord(BaseModel):
    """``save.json``.

    ``position`` counts windows since the start of the run, ``seconds`` the training time so far, over all attempts.
    ``seal`` is the digest of all other fields, as a damaged position would repeat or skip data without a word.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    version: int = 1
    step: int
    position: int
    seconds: float
    threads: int
    software: dict[str, str]
    files: dict[str, FileEntry]
    seal: str = ""

    def expected_seal(self) -> str:
        return digest(self.model_dump(mode="json", exclude={"seal"}))


@dataclass(frozen=True, kw_only=True, slots=True)
class Save:
    """A verified save: its record and a local folder with its files, to be treated as read-only."""

    attempt: int
    record: SaveRecord
    folder: Path


def write_save(store: Store, attempt: str, folder: Path, record: dict[str, Any]) -> SaveRecord:
    """Upload the files of ``folder`` as a save of the attempt at path ``attempt``, then drop what it replaces.

    ``record`` holds SaveRecord's fields except ``files`` and ``seal``. Raises StoreUnavailable where the store refuses.
    """
    files = {
        path.name: FileEntry(size=path.stat().st_size, sha256=sha256_file(path)) for path in sorted(folder.iterdir())
    }
    whole = SaveRecord(**record, files=files)
    whole = whole.model_copy(update={"seal": whole.expected_seal()})
    place = f"{attempt}/saves/{whole.step:06d}"
    # A save of this step may be there already, and be damaged: it must not be valid while its files change.
    store.delete(f"{place}/{RECORD}")
    for name in files:
        store.upload(folder / name, f"{place}/{name}")
    store.create_json(f"{place}/{RECORD}", whole.model_dump(mode="json"))
    _keep_newest(store, attempt)
    return whole


def newest_save(store: Store, address: Address, attempts: Iterable[int], scratch: Path) -> Save | None:
    """The save with the highest step among these attempts that verifies, or None; damaged ones are named on stdout.

    Raises IncompleteSave for one that verifies but was written without a file that resuming needs: to go on from it
    would silently train something else.
    """
    found = []
    for attempt in attempts:
        saves = f"{attempt_path(address, attempt)}/saves"
        found += [(int(step), attempt, f"{saves}/{step}") for step in store.folders(saves)]
    for _, attempt, place in sorted(found, reverse=True):
        try:
            record = _read_record(store, place)
            if record is None:
                continue
            folder = _fetch(store, place, record, scratch / f"save-{attempt}-{record.step}")
        except CorruptArtifact as error:
            print(f"skipping a damaged save: {error.where}: {error.what}", flush=True)
            continue
        missing = sorted(set(FILES) - set(record.files))
        if missing:
            raise IncompleteSave(
                f"the save has no {', '.join(missing)}",
                where=place,
                remedy="Delete this save's folder to go on from an older one, or all saves to start again.",
            )
        return Save(attempt=attempt, record=record, folder=folder)
    return None


def _read_record(store: Store, place: str) -> SaveRecord | None:
    raw = store.find_json(f"{place}/{RECORD}")
    if raw is None:
        return None
    try:
        record = SaveRecord.model_validate(raw)
    except ValidationError as error:
        raise CorruptArtifact("save.json cannot be read", where=f"{place}/{RECORD}") from error
    if record.seal != record.expected_seal() or place.rsplit("/", 1)[-1] != f"{record.step:06d}":
        raise CorruptArtifact("save.json was altered", where=f"{place}/{RECORD}")
    return record


def _fetch(store: Store, place: str, record: SaveRecord, scratch: Path) -> Path:
    """A local copy of the save's files. Raises CorruptArtifact for a missing or damaged one."""
    scratch.mkdir(parents=True, exist_ok=True)
    for name, entry in record.files.items():
        target = scratch / name
        try:
            store.download(f"{place}/{name}", target)
        except FileNotFoundError:
            raise CorruptArtifact(f"{name} is missing", where=f"{place}/{name}") from None
        if sha256_file(target) != entry.sha256:
            raise CorruptArtifact(f"{name} does not match its sha256", where=f"{place}/{name}")
    return scratch


def _keep_newest(store: Store, attempt: str) -> None:
    """Remove all but the attempt's last saves, and those of earlier attempts once it has enough of its own.

    Each goes with its record first, so that none is ever half there.
    """
    files: dict[int, list[str]] = {}
    for entry in store.entries(f"{attempt}/saves"):
        files.setdefault(int(entry.path.rsplit("/", 2)[-2]), []).append(entry.path)
    stale = [path for step in sorted(files)[:-KEPT] for path in files[step]]
    attempts, _, number = attempt.rpartition("/")
    if len(files) >= KEPT:
        for earlier in range(1, int(number)):
            stale += [entry.path for entry in store.entries(f"{attempts}/{earlier:04d}/saves")]
    for path in sorted(stale, key=lambda path: not path.endswith(f"/{RECORD}")):
        store.delete(path)
