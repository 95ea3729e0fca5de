"""What happens around the optimizer steps of one attempt: resuming, books, validation, saves, stops."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import json
import shutil
import time
from typing import Any

import torch
from transformers import TrainerCallback

from ft_assets.checkpoints.journal import Cadence, Journal
from ft_assets.checkpoints.ledger import ledger_line
from ft_assets.checkpoints.sampler import Order, Step
from ft_assets.checkpoints.saves import LEDGER, STEPS, Save, newest_save, write_save
from ft_assets.checkpoints.state import read_state, write_state
from ft_assets.checkpoints.trainer import PackedTrainer, mean_loss
from ft_assets.packs.format import Pack
from ft_assets.packs.isolation.batches import split_windows
from ft_assets.packs.isolation.compare import compare
from ft_assets.worker import Diverged
from ft_resources.artifacts import software_versions
from ft_resources.worker_context import Preempted, WorkContext

_NAMED = 20
_COMPARED, _LOOKED_AT, _JOINED = 3, 16, 2
"""Documents compared before the first step, in one of so many rows of at most so many windows."""


class Conductor(TrainerCallback):
    """What happens around each optimizer step: resuming before the first, then books, validation, saves and stops."""

    def __init__(self, context: WorkContext, pack: Pack, validation: Pack, order: Order, cadence: Cadence) -> None:
        self.context, self.pack, self.validation = context, pack, validation
        self.order, self.cadence = order, cadence
        self.journal = Journal()
        self.trainer: PackedTrainer
        self._saved_step = 0
        self._saved_at = self._stepped_at = self._began = time.monotonic()
        self._steps_here = 0
        # Asked once: reading the packages' metadata takes longer than writing a small save.
        self._software = software_versions()

    def before_update(self, step: Step, loss: float, grad_norm: float) -> None:
        """Refuse an update that would spoil the weights. Raises Diverged, which is never retried by itself."""
        if _finite(loss) and _finite(grad_norm):
            return
        ids = [self.pack.example_id(index) for index in self.pack.examples_of(step.windows.tolist())]
        more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
        raise Diverged(
            f"the loss is {loss} and the gradient's norm {grad_norm} at step {step.number} of {self.order.steps}; "
            f"the step read examples {', '.join(ids[:_NAMED])}{more}",
            where=f"step {step.number}",
            remedy="Lower training.learning_rate (a tenth is a good try) or raise training.warmup_ratio in a new "
            "recipe version; if it fails at this step again, look at these examples.",
        )

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Go on from the newest good save of this run, if there is one."""
        spec = self.context.spec
        save = newest_save(
            self.context.store, spec.address, [*spec.previous, spec.attempt], self.context.scratch / "saves"
        )
        if save is not None:
            self._resume(save)
            state.global_step = save.record.step
        # Loading leaves a base in evaluation mode below adapters that are in training mode.
        model: Any = self.trainer.model
        model.train()
        self._prove_isolation()
        self._saved_at = self._stepped_at = self._began = time.monotonic()
        self._after_step(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Book the step, then whatever is due after it."""
        trainer, journal = self.trainer, self.journal
        step, now = trainer.step, time.monotonic()
        seconds = max(now - self._stepped_at, 1e-9)
        self._stepped_at = now
        self._steps_here += 1
        journal.seconds += seconds
        journal.position = step.end
        journal.ledger.append(ledger_line(self.pack, step))
        self._row(
            step=step.number,
            loss=trainer.last_loss,
            grad_norm=trainer.last_grad_norm,
            learning_rate=trainer.last_learning_rate,
            tokens=trainer.step_tokens,
            tokens_per_s=round(trainer.step_tokens / seconds, 1),
            epoch=round(step.end / self.order.windows, 6),
        )
        pace = (now - self._began) / self._steps_here
        self.context.progress(
            "training",
            done=step.number,
            total=self.order.steps,
            loss=trainer.last_loss,
            tokens_per_s=round(trainer.step_tokens / seconds, 1),
            eta_s=round(pace * (self.order.steps - step.number), 1),
        )
        self._after_step(step.number)

    def _after_step(self, step: int) -> None:
        """Stop, validate and save, each where it is due. Raises Preempted after saving where a stop was asked for."""
        self._stop_if_asked(step)
        every = self.cadence.validate_steps
        due = step == self.order.steps or (every is not None and step > 0 and step % every == 0)
        if due and len(self.validation) and not self.journal.validated(step):
            self._validate(step)
        waited = time.monotonic() - self._saved_at
        late = step - self._saved_step >= self.cadence.save_steps or waited >= self.cadence.save_minutes * 60
        if late and self._saved_step < step < self.order.steps:
            self._save(step)

    def _prove_isolation(self) -> None:
        """Compare documents packed and alone with the weights that train; raises Leak before anything is learned."""
        self.context.progress("comparing packed and alone")
        comparison = compare(
            self.trainer.model,
            self.pack,
            first_shared(self.pack, self.order, self.trainer.reader.micro_windows),
            documents=_COMPARED,
            half_precision=self.trainer.args.bf16,
        )
        self.journal.isolation = comparison.figures()
        comparison.require()

    def _stop_if_asked(self, step: int) -> None:
        if self.context.stop_requested:
            if step > self._saved_step:
                self._save(step)
            raise Preempted

    def _validate(self, step: int) -> None:
        began = time.monotonic()
        self.context.progress("validating", done=step, total=self.order.steps)
        loss = mean_loss(
            self.trainer.model,
            self.validation,
            self.trainer.args.device,
            self.trainer.reader.micro_windows,
            lambda: self._stop_if_asked(step),
        )
        if _finite(loss):
            self._row(step=step, validation_loss=loss)
        taken = time.monotonic() - began
        self.journal.seconds += taken
        self._stepped_at += taken

    def _save(self, step: int) -> None:
        """Write a save; the time it takes counts as training time, but not as that of the next step."""
        began = time.monotonic()
        folder = self.context.scratch / "saving"
        shutil.rmtree(folder, ignore_errors=True)
        trainer, journal = self.trainer, self.journal
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
        write_save(self.context.store, self.context.spec.attempt_path, folder, record)
        self._saved_step, self._saved_at = step, time.monotonic()
        journal.seconds += self._saved_at - began
        self._stepped_at += self._saved_at - began

    def _resume(self, save: Save) -> None:
        """Put everything back as the save found it."""
        trainer, journal, record = self.trainer, self.journal, save.record
        # The number of threads decides in which order sums are taken, and so the last bits of every result.
        torch.set_num_threads(record.threads)
        read_state(save.folder, trainer.model, trainer.optimizer, trainer.lr_scheduler)
        journal.ledger = (save.folder / LEDGER).read_text().splitlines()
        journal.rows = [json.loads(line) for line in (save.folder / STEPS).read_text().splitlines()]
        journal.position, journal.seconds = record.position, record.seconds
        journal.resumed.append({"attempt": save.attempt, "step": record.step})
        trainer.reader.position = record.position
        self._saved_step = record.step
        print(f"resuming after step {record.step}, from the save of attempt {save.attempt}", flush=True)

    def _row(self, **row: Any) -> None:
        self.journal.rows.append(row)
        self.context.step(**row)


def first_shared(pack: Pack, order: Order, micro_windows: int) -> list[int]:
    """The windows of the run's first row that several documents share and learn from; the first row where none is."""
    rows = split_windows(next(iter(order.read())).windows, min(micro_windows, _JOINED))
    for row in rows[:_LOOKED_AT]:
        read = pack.read(row)
        if len(read.document_lengths) > 1 and read.learned[read.document_lengths[0] :].any():
            return row
    return rows[0]


def _finite(value: float) -> bool:
    return abs(value) < float("inf")
