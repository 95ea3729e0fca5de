"""Weights kept in addition to the final ones: those with the lowest validation loss.

During a run they are in ``<attempt>/kept/<step>/``, complete once ``kept.json`` exists, which has the loss and each
file's sha256. In the artifact they are in ``kept/<step>/``, laid out like ``final/``. Validation loss alone decides
which are kept. The candidate for the gates is chosen by validation loss or by a suite (``evals/selection_rule.py``),
never by the holdout that the gates use.
"""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ft_resources.artifacts import Address, FileEntry, FileName
from ft_resources.errors import CorruptArtifact
from ft_resources.records import Record
from ft_resources.store import Store
from ft_resources.work import attempt_path
from ft_resources.worker_context import WorkContext

if TYPE_CHECKING:
    from ft_assets.workers.training.model import Origin

FOLDER, RECORD = "kept", "kept.json"
FINAL = "final/"
WEIGHTS_AT = "weights_at"
"""Fact with the folder of the last weights if it is not ``final/``: for a merged model it is the artifact itself."""
# Selection rules that need only the checkpoint's facts.
Candidate = Literal["last", "best_validation"] | int


class KeptRecord(Record):
    """``kept.json``: weights after ``step``, at which validation loss was ``loss`` nats."""

    WHAT: ClassVar[str] = RECORD

    step: int
    loss: float
    files: dict[FileName, FileEntry]


@dataclass(frozen=True, kw_only=True)
class Weights:
    """A set of weights in a checkpoint: folder, step, and validation loss in nats a token (None if not measured)."""

    prefix: str
    step: int
    loss: float | None = None


def lowest(rows: Iterable[Mapping[str, Any]], count: int, *, last: int) -> list[tuple[int, float]]:
    """The ``count`` validations with the lowest loss, lowest first, the later of equals first; without the ``last``
    step, whose weights are stored anyway."""
    found = [(int(row["step"]), float(row["validation_loss"])) for row in rows if "validation_loss" in row]
    return sorted((each for each in found if each[0] != last), key=lambda each: (each[1], -each[0]))[:count]


def stored_weights(facts: Mapping[str, Any]) -> list[Weights]:
    """All weights that a checkpoint has, from its facts: the kept ones by step, then the last."""
    steps = int(facts.get("steps", 0))
    losses = {int(step): float(loss) for step, loss in facts.get("validation_loss", [])}
    kept = sorted(int(step) for step, _ in facts.get("kept", []) if int(step) != steps)
    return [
        *(Weights(prefix=f"{folder_of(step)}/", step=step, loss=losses.get(step)) for step in kept),
        Weights(prefix=facts.get(WEIGHTS_AT, FINAL), step=steps, loss=losses.get(steps)),
    ]


def candidate_weights(facts: Mapping[str, Any], wish: Candidate) -> Weights:
    """The weights that go to the gates, from a checkpoint's facts: the final ones, those with the lowest validation
    loss among final and kept (the later of equals), or those after a step. Raises ValueError if that step has none."""
    stored = stored_weights(facts)
    if isinstance(wish, int):
        found = {weights.step: weights for weights in stored}
        if wish not in found:
            raise ValueError(
                f"the training kept the weights after steps {', '.join(map(str, found))}, not after {wish}"
            )
        return found[wish]
    if wish == "last" or stored[-1].loss is None:
        return stored[-1]
    measured = [(weights.loss, -weights.step, weights) for weights in stored if weights.loss is not None]
    return min(measured, key=lambda each: each[:2])[2]


def folder_of(step: int) -> str:
    return f"{FOLDER}/{step:06d}"


def store_kept(store: Store, attempt: str, folder: Path, step: int, loss: float) -> None:
    """Upload the files of ``folder`` as the weights after ``step`` of the attempt at path ``attempt``."""
    place = f"{attempt}/{folder_of(step)}"
    files = {path.name: FileEntry.of(path) for path in folder.iterdir()}
    # An earlier try at this step may have been interrupted: it must not look complete while its files change.
    store.delete(f"{place}/{RECORD}")
    for name in files:
        store.upload(folder / name, f"{place}/{name}")
    store.put(f"{place}/{RECORD}", KeptRecord(step=step, loss=loss, files=files).data())


def drop_displaced(store: Store, attempt: str, wanted: Sequence[int]) -> None:
    """Remove the attempt's kept weights of other steps, record first."""
    for step in store.folders(f"{attempt}/{FOLDER}"):
        if int(step) not in wanted:
            paths = [entry.path for entry in store.entries(f"{attempt}/{FOLDER}/{step}")]
            for path in sorted(paths, key=lambda path: not path.endswith(f"/{RECORD}")):
                store.delete(path)


def fetch_kept(
    store: Store, address: Address, attempts: Sequence[int], wanted: Iterable[tuple[int, float]], output: Path
) -> list[tuple[int, float]]:
    """Copy the weights of ``wanted`` (step, loss) below ``output``, from any attempt; returns those found.

    Damaged weights, or weights with another loss than the run recorded, are reported on stdout and skipped.
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
            print(f"the weights after step {step} are missing, so they are not kept", flush=True)
    return found


def _fetch(store: Store, place: str, step: int, loss: float, target: Path) -> bool:
    record = KeptRecord.find(store, f"{place}/{RECORD}")
    if record is None or (record.step, record.loss) != (step, loss):
        return False
    # Under a temporary name first, so that a folder of the output is complete or absent.
    partial = target.with_name(f"{target.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    try:
        for name, entry in record.files.items():
            entry.download(store, f"{place}/{name}", partial / name)
    except CorruptArtifact:
        shutil.rmtree(partial)
        raise
    partial.rename(target)
    return True


class BestWeights:
    """Keeps ``count`` weights of a run."""

    def __init__(self, context: WorkContext, count: int, *, full: bool, origin: "Origin") -> None:
        self._context, self._count, self._full, self._origin = context, count, full, origin

    def validated(self, model: Any, step: int, rows: list[dict[str, Any]], *, last: int) -> None:
        """Keep the weights after ``step`` if its loss (the last in ``rows``) is among the lowest, and drop those that
        no longer are. Those of step ``last``, which ends the run, are stored anyway. Blocks training."""
        from ft_assets.workers.training.model import save_final

        wanted = dict(lowest(rows, self._count, last=last))
        if step not in wanted:
            return
        folder = self._context.scratch / "keeping"
        shutil.rmtree(folder, ignore_errors=True)
        save_final(model, folder, self._origin, full=self._full)
        attempt = self._context.spec.attempt_path
        store_kept(self._context.store, attempt, folder, step, wanted[step])
        drop_displaced(self._context.store, attempt, list(wanted))
