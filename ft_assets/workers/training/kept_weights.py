"""Weights kept beside the last ones: those of the validations with the lowest loss, and which of all go to the gates.

While a run lasts they lie in ``<attempt>/kept/<step>/``, complete once ``kept.json`` is there, which names the loss
and each file's sha256; in the artifact in ``kept/<step>/``, in the form of ``final/``. Which are kept follows from
validation loss alone. Which one is the candidate follows from it too, or from a suite (``evals/choice.py``): never from
the holdout, by which the gates judge.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ft_resources.artifacts import Address, FileEntry
from ft_resources.canonical import sha256_file
from ft_resources.errors import CorruptArtifact
from ft_resources.store import Store
from ft_resources.work import attempt_path

FOLDER, RECORD = "kept", "kept.json"
FINAL = "final/"
# Choices that a checkpoint's facts decide.
Candidate = Literal["last", "best_validation"]


class KeptRecord(BaseModel):
    """``kept.json``: weights after ``step``, at which validation loss was ``loss`` nats."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    step: int
    loss: float
    files: dict[str, FileEntry]


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Weights of a checkpoint: their folder in it, the step they are of, and validation loss there (nats a token), None
    where it was not measured."""

    prefix: str
    step: int
    loss: float | None = None


def lowest(rows: Iterable[Mapping[str, Any]], count: int, *, last: int) -> list[tuple[int, float]]:
    """The ``count`` validations with the lowest loss, lowest first and of equals the later one; without that of the
    ``last`` step, whose weights are there anyway."""
    found = [(int(row["step"]), float(row["validation_loss"])) for row in rows if "validation_loss" in row]
    return sorted((each for each in found if each[0] != last), key=lambda each: (each[1], -each[0]))[:count]


def stored_weights(facts: Mapping[str, Any]) -> list[Weights]:
    """All weights that a checkpoint has, from its facts: the kept ones by step, then the last."""
    steps = int(facts.get("steps", 0))
    losses = {int(step): float(loss) for step, loss in facts.get("validation_loss", [])}
    kept = sorted(int(step) for step, _ in facts.get("kept", []) if int(step) != steps)
    return [
        *(Weights(prefix=f"{folder_of(step)}/", step=step, loss=losses.get(step)) for step in kept),
        Weights(prefix=FINAL, step=steps, loss=losses.get(steps)),
    ]


def candidate_weights(facts: Mapping[str, Any], wish: Candidate) -> Weights:
    """The weights that go to the gates, from the facts of a checkpoint: the last ones, or of these and the kept ones
    those with the lowest validation loss, of equals the later."""
    stored = stored_weights(facts)
    if wish == "last" or stored[-1].loss is None:
        return stored[-1]
    measured = [(weights.loss, -weights.step, weights) for weights in stored if weights.loss is not None]
    return min(measured, key=lambda each: each[:2])[2]


def folder_of(step: int) -> str:
    return f"{FOLDER}/{step:06d}"


def store_kept(store: Store, attempt: str, folder: Path, step: int, loss: float) -> None:
    """Upload the files of ``folder`` as the weights after ``step`` of the attempt at path ``attempt``."""
    place = f"{attempt}/{folder_of(step)}"
    files = {path.name: FileEntry(size=path.stat().st_size, sha256=sha256_file(path)) for path in folder.iterdir()}
    # Another go at this step may have been cut short: it must not be complete while its files change.
    store.delete(f"{place}/{RECORD}")
    for name in files:
        store.upload(folder / name, f"{place}/{name}")
    store.put_json(f"{place}/{RECORD}", KeptRecord(step=step, loss=loss, files=files).model_dump(mode="json"))


def drop_displaced(store: Store, attempt: str, wanted: Sequence[int]) -> None:
    """Remove what the attempt kept of other steps, each record first."""
    for step in store.folders(f"{attempt}/{FOLDER}"):
        if int(step) not in wanted:
            paths = [entry.path for entry in store.entries(f"{attempt}/{FOLDER}/{step}")]
            for path in sorted(paths, key=lambda path: not path.endswith(f"/{RECORD}")):
                store.delete(path)


def fetch_kept(
    store: Store, address: Address, attempts: Sequence[int], wanted: Iterable[tuple[int, float]], output: Path
) -> list[tuple[int, float]]:
    """Put the weights of ``wanted`` (step, loss) below ``output``, from whichever attempt kept them; those found.

    What is damaged, or of another loss than the run's books say, is named on stdout and left out.
    """
    found = []
    for step, loss in sorted(wanted):
        for attempt in sorted(attempts, reverse=True):
            place = f"{attempt_path(address, attempt)}/{folder_of(step)}"
            try:
                if _fetch(store, place, step, loss, output / folder_of(step)):
                    found.append((step, loss))
                    break
            except CorruptArtifact as error:
                print(f"skipping damaged weights: {error.where}: {error.what}", flush=True)
        else:
            print(f"the weights after step {step} are not there to be kept", flush=True)
    return found


def _fetch(store: Store, place: str, step: int, loss: float, target: Path) -> bool:
    raw = store.find_json(f"{place}/{RECORD}")
    if raw is None:
        return False
    try:
        record = KeptRecord.model_validate(raw)
    except ValidationError as error:
        raise CorruptArtifact("kept.json cannot be read", where=f"{place}/{RECORD}") from error
    if (record.step, record.loss) != (step, loss):
        return False
    # Its own name first, so that a folder of the output is whole or not there.
    partial = target.with_name(f"{target.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    for name, entry in record.files.items():
        store.download(f"{place}/{name}", partial / name)
        if sha256_file(partial / name) != entry.sha256:
            for path in partial.iterdir():
                path.unlink()
            partial.rmdir()
            raise CorruptArtifact(f"{name} does not match its sha256", where=f"{place}/{name}")
    partial.rename(target)
    return True
