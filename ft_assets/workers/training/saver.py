"""When a run saves, what it saves, and how it resumes.

Training pauses only while its state is copied; a thread writes it. At most one save is in progress.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import json
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import torch

from ft_assets.workers.training.journal import Cadence, Journal
from ft_assets.workers.training.ranks import Ranks
from ft_assets.workers.training.saved_rows import LEDGER, STEPS, Books
from ft_assets.workers.training.saves import Save, SaveRecord, SaveWriter, newest_save
from ft_assets.workers.training.state import HostCopies, RandomStates, read_state, write_state
from ft_assets.workers.training.trainer import PackedTrainer
from ft_resources.provenance import software_versions
from ft_resources.worker_context import WorkContext

_ASSUMED_BYTES_S = 50e6
"""Assumed speed of saves before the first was measured."""


class Saver:
    """Saves of one attempt. ``begun`` is the step of the newest one, finished or not; 0 if there is none."""

    def __init__(self, context: WorkContext, cadence: Cadence) -> None:
        self._context, self._cadence = context, cadence
        self.begun = 0
        self._begun_at = time.monotonic()
        self._copies, self._books = HostCopies(), Books()
        self._writer = SaveWriter(context.store, context.spec.attempt_path)
        self._thread: threading.Thread | None = None
        self._problem: BaseException | None = None
        self._slowest_s: float | None = None
        # Asked once: reading the packages' metadata takes longer than writing a small save.
        self._software = software_versions()

    def begin(self) -> None:
        """Start counting steps and minutes until the next save."""
        self._begun_at = time.monotonic()

    def due(self, step: int) -> bool:
        """Whether the interval since the last save has passed and none is in progress."""
        waited = time.monotonic() - self._begun_at
        late = step - self.begun >= self._cadence.save_steps or waited >= self._cadence.save_minutes * 60
        return late and not self.under_way

    def pays(self, trainer: PackedTrainer) -> bool:
        """Whether more time has passed since the last save than two saves take. Then another pays off even if only
        publishing is left, as a run can be killed there too."""
        return time.monotonic() - self._begun_at > 2 * self.predicted_s(trainer)

    @property
    def under_way(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def save(self, step: int, trainer: PackedTrainer, journal: Journal, random_states: RandomStates) -> float:
        """Start saving the state after ``step``; returns the seconds for which training paused.

        ``random_states`` are those after that step. Raises the error of the previous save, if it failed.
        """
        began = time.monotonic()
        self.finish()
        ranks = trainer.reader.ranks
        state = self._copies.take(
            trainer.model, trainer.optimizer, trainer.pace, random_states, trainer.sharding, kept=ranks.first
        )
        if not ranks.first:
            self.begun, self._begun_at = step, began
            return time.monotonic() - began
        page = self._books.turn(journal)
        record = {
            "step": step,
            "position": journal.position,
            "seconds": journal.seconds,
            # Read here: the saving thread may have another number.
            "threads": torch.get_num_threads(),
            "software": self._software,
        }

        def write() -> None:
            folder = self._context.scratch / "saving"
            try:
                shutil.rmtree(folder, ignore_errors=True)
                write_state(folder, state)
                self._writer.write(folder, record, page)
                self._slowest_s = max(self._slowest_s or 0.0, time.monotonic() - began)
            except BaseException as error:
                self._problem = error

        self.begun, self._begun_at = step, began
        self._thread = threading.Thread(target=write, name="save", daemon=True)
        self._thread.start()
        return time.monotonic() - began

    def require_well(self) -> None:
        """Raise the error of a save that failed."""
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem

    def finish(self, timeout_s: float | None = None) -> None:
        """Wait for the save in progress, up to a limit. Raises its error."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        self.require_well()

    def predicted_s(self, trainer: PackedTrainer) -> float:
        """Expected seconds for a save started now: those of the slowest so far, or estimated from its size."""
        one = self._slowest_s
        if one is None:
            model: Any = trainer.model
            trained = [value for value in model.parameters() if value.requires_grad]
            weights = sum(trainer.sharding.shape(value).numel() * value.element_size() for value in trained)
            # The weights and, of common optimizers, two moments of each.
            one = 1.0 + 3 * weights / _ASSUMED_BYTES_S
        return one + (max(one - (time.monotonic() - self._begun_at), 0.0) if self.under_way else 0.0)

    def find_together(self, ranks: Ranks) -> Save | None:
        """The newest valid save of this run over all attempts, for all ranks; each node fetches it once.

        Raises RuntimeError if nodes found different saves, as one may have read a damaged copy: the next attempt
        searches again.
        """
        spec, scratch = self._context.spec, self._context.scratch / "saves"
        told, found = scratch / "found.json", None
        if ranks.local == 0:
            found = newest_save(self._context.store, spec.address, [*spec.previous, spec.attempt], scratch)
            scratch.mkdir(parents=True, exist_ok=True)
            told.write_text(
                json.dumps(found and [found.attempt, found.record.model_dump(mode="json"), str(found.folder)])
            )
        ranks.together()
        if ranks.local and (raw := json.loads(told.read_bytes())):
            found = Save(attempt=raw[0], record=SaveRecord.model_validate(raw[1]), folder=Path(raw[2]))
        if len({step for (step,) in ranks.gathered([found.record.step if found else -1])}) > 1:
            raise RuntimeError("the nodes found different saves to resume from")
        return found

    def resume(self, save: Save, trainer: PackedTrainer, journal: Journal) -> None:
        """Restore the saved state."""
        record = save.record
        # The number of threads decides the order of sums, and so the last bits of every result.
        torch.set_num_threads(record.threads)
        read_state(save.folder, trainer.model, trainer.optimizer, trainer.pace, trainer.sharding)
        journal.ledger = (save.folder / LEDGER).read_text().splitlines()
        journal.rows = [json.loads(line) for line in (save.folder / STEPS).read_text().splitlines()]
        journal.position, journal.seconds = record.position, record.seconds
        journal.resumed.append({"attempt": save.attempt, "step": record.step})
        trainer.reader.position = record.position
        self.begun = record.step
        print(f"resuming after step {record.step}, from the save of attempt {save.attempt}", flush=True)
