"""When a run saves, what it saves, and how it goes on from there."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import json
import shutil
import time

import torch

from ft_assets.checkpoints.journal import Cadence, Journal
from ft_assets.checkpoints.saves import LEDGER, STEPS, Save, newest_save, write_save
from ft_assets.checkpoints.state import read_state, write_state
from ft_assets.checkpoints.trainer import PackedTrainer
from ft_resources.artifacts import software_versions
from ft_resources.worker_context import WorkContext


class Saver:
    """Saves of one attempt. ``saved`` is the step of the newest, 0 where there is none."""

    def __init__(self, context: WorkContext, cadence: Cadence) -> None:
        self._context, self._cadence = context, cadence
        self.saved = 0
        self._saved_at = time.monotonic()
        # Asked once: reading the packages' metadata takes longer than writing a small save.
        self._software = software_versions()

    def begin(self) -> None:
        """The cadence counts from here."""
        self._saved_at = time.monotonic()

    def due(self, step: int) -> bool:
        """Whether so many steps or minutes have gone since the last save."""
        waited = time.monotonic() - self._saved_at
        return step - self.saved >= self._cadence.save_steps or waited >= self._cadence.save_minutes * 60

    def save(self, step: int, trainer: PackedTrainer, journal: Journal) -> float:
        """Save the run as it stands after ``step``; the seconds for which training stood still."""
        began = time.monotonic()
        folder = self._context.scratch / "saving"
        shutil.rmtree(folder, ignore_errors=True)
        write_state(folder, trainer.model, trainer.optimizer, trainer.lr_scheduler)
        (folder / LEDGER).write_text("".join(f"{line}\n" for line in journal.ledger))
        (folder / STEPS).write_text("".join(f"{json.dumps(row)}\n" for row in journal.rows))
        record = {
            "step": step,
            "position": journal.position,
            "seconds": journal.seconds,
            "threads": torch.get_num_threads(),
            "software": self._software,
        }
        write_save(self._context.store, self._context.spec.attempt_path, folder, record)
        self.saved, self._saved_at = step, time.monotonic()
        return self._saved_at - began

    def find(self) -> Save | None:
        """The newest good save of this run, over all its attempts."""
        spec, scratch = self._context.spec, self._context.scratch / "saves"
        return newest_save(self._context.store, spec.address, [*spec.previous, spec.attempt], scratch)

    def resume(self, save: Save, trainer: PackedTrainer, journal: Journal) -> None:
        """Put everything back as the save found it."""
        record = save.record
        # The number of threads decides in which order sums are taken, and so the last bits of every result.
        torch.set_num_threads(record.threads)
        read_state(save.folder, trainer.model, trainer.optimizer, trainer.lr_scheduler)
        journal.ledger = (save.folder / LEDGER).read_text().splitlines()
        journal.rows = [json.loads(line) for line in (save.folder / STEPS).read_text().splitlines()]
        journal.position, journal.seconds = record.position, record.seconds
        journal.resumed.append({"attempt": save.attempt, "step": record.step})
        trainer.reader.position = record.position
        self.saved = record.step
        print(f"resuming after step {record.step}, from the save of attempt {save.attempt}", flush=True)
