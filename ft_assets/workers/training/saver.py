"""When a run saves, what it saves, and how it goes on from there.

Training stands still only while its state is copied; a thread does the rest. One save is under way at a time.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import json
import shutil
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from ft_assets.checkpoints.books import LEDGER, STEPS, Books
from ft_assets.checkpoints.distributed.zero import shape_of
from ft_assets.checkpoints.journal import Cadence, Journal
from ft_assets.checkpoints.saves import Save, SaveWriter, newest_save
from ft_assets.checkpoints.state import HostCopies, RandomStates, read_state, write_state
from ft_assets.checkpoints.trainer import PackedTrainer
from ft_resources.provenance import software_versions
from ft_resources.worker_context import WorkContext

_ASSUMED_BYTES_S = 50e6
"""How fast saves are taken to be before the first was seen."""


class Saver:
    """Saves of one attempt. ``begun`` is the step of the newest, be it under way, 0 where there is none."""

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
        """The cadence counts from here."""
        self._begun_at = time.monotonic()

    def due(self, step: int) -> bool:
        """Whether so many steps or minutes have gone since the last save, and none is under way."""
        waited = time.monotonic() - self._begun_at
        late = step - self.begun >= self._cadence.save_steps or waited >= self._cadence.save_minutes * 60
        return late and not self.under_way

    def pays(self, trainer: PackedTrainer) -> bool:
        """Whether more time has gone since the last save than two saves take: then one more is worth it even if all
        that is left to do is to publish the result, where a run can be killed too."""
        return time.monotonic() - self._begun_at > 2 * self.predicted_s(trainer)

    @property
    def under_way(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def save(self, step: int, trainer: PackedTrainer, journal: Journal, random_states: RandomStates) -> float:
        """Begin to save the run as it stood after ``step``; the seconds for which training stood still.

        ``random_states`` are those after that step. Raises what went wrong with the save before.
        """
        began = time.monotonic()
        self.finish()
        ranks = trainer.reader.ranks
        state = self._copies.take(trainer.model, trainer.optimizer, trainer.pace, random_states, kept=ranks.first)
        if not ranks.first:
            self.begun, self._begun_at = step, began
            return time.monotonic() - began
        page = self._books.turn(journal)
        record = {
            "step": step,
            "position": journal.position,
            "seconds": journal.seconds,
            # The number of this thread: another one's may differ.
            "threads": torch.get_num_threads(),
            "software": self._software,
        }

        def write() -> None:
            folder = self._context.scratch / "saving"
            shutil.rmtree(folder, ignore_errors=True)
            write_state(folder, state)
            self._writer.write(folder, record, page)
            self._slowest_s = max(self._slowest_s or 0.0, time.monotonic() - began)

        self.begun, self._begun_at = step, began
        self._thread = threading.Thread(target=self._guarded, args=(write,), name="save", daemon=True)
        self._thread.start()
        return time.monotonic() - began

    def _guarded(self, write: Callable[[], None]) -> None:
        try:
            write()
        except BaseException as error:
            self._problem = error

    def require_well(self) -> None:
        """Raises what went wrong with a save that has ended."""
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem

    def finish(self, timeout_s: float | None = None) -> None:
        """Wait for what is under way, but no longer than that. Raises what went wrong with it."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        self.require_well()

    def predicted_s(self, trainer: PackedTrainer) -> float:
        """Seconds from now until a save that is begun now is done: as long as the slowest so far, or by its size."""
        one = self._slowest_s
        if one is None:
            model: Any = trainer.model
            trained = [value for value in model.parameters() if value.requires_grad]
            weights = sum(shape_of(value).numel() * value.element_size() for value in trained)
            # The weights and, of common optimizers, two moments of each.
            one = 1.0 + 3 * weights / _ASSUMED_BYTES_S
        return one + (max(one - (time.monotonic() - self._begun_at), 0.0) if self.under_way else 0.0)

    def find(self) -> Save | None:
        """The newest good save of this run, over all its attempts."""
        spec, scratch = self._context.spec, self._context.scratch / "saves"
        return newest_save(self._context.store, spec.address, [*spec.previous, spec.attempt], scratch)

    def resume(self, save: Save, trainer: PackedTrainer, journal: Journal) -> None:
        """Put everything back as the save found it."""
        record = save.record
        # The number of threads decides in which order sums are taken, and so the last bits of every result.
        torch.set_num_threads(record.threads)
        read_state(save.folder, trainer.model, trainer.optimizer, trainer.pace)
        journal.ledger = (save.folder / LEDGER).read_text().splitlines()
        journal.rows = [json.loads(line) for line in (save.folder / STEPS).read_text().splitlines()]
        journal.position, journal.seconds = record.position, record.seconds
        journal.resumed.append({"attempt": save.attempt, "step": record.step})
        trainer.reader.position = record.position
        self.begun = record.step
        print(f"resuming after step {record.step}, from the save of attempt {save.attempt}", flush=True)
