"""What happens around the optimizer steps of one attempt: resuming, books, validation, saves, stops."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import time
from typing import Any

from transformers import TrainerCallback

from ft_assets.checkpoints.journal import Cadence, Journal
from ft_assets.checkpoints.ledger import ledger_line
from ft_assets.checkpoints.sampler import Order
from ft_assets.checkpoints.saver import Saver
from ft_assets.checkpoints.telemetry.meter import Meter
from ft_assets.checkpoints.trainer import PackedTrainer
from ft_assets.checkpoints.validation import validation_loss
from ft_assets.checkpoints.watch import finite
from ft_assets.packs.format import Pack
from ft_assets.packs.isolation.batches import split_windows
from ft_assets.packs.isolation.compare import compare
from ft_resources.worker_context import Preempted, WorkContext

_COMPARED, _LOOKED_AT, _JOINED = 3, 16, 2
"""Documents compared before the first step, in one of so many rows of at most so many windows."""


class Conductor(TrainerCallback):
    """What happens around each optimizer step: resuming before the first, then books, validation, saves and stops."""

    def __init__(self, context: WorkContext, pack: Pack, validation: Pack, order: Order, cadence: Cadence) -> None:
        self.context, self.pack, self.validation = context, pack, validation
        self.order, self.cadence = order, cadence
        self.journal, self.saver, self.meter = Journal(), Saver(context, cadence), Meter()
        self.trainer: PackedTrainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Go on from the newest good save of this run, if there is one."""
        save = self.saver.find()
        if save is not None:
            self.saver.resume(save, self.trainer, self.journal)
            state.global_step = save.record.step
        # Loading leaves a base in evaluation mode below adapters that are in training mode.
        model: Any = self.trainer.model
        model.train()
        self._prove_isolation()
        self.saver.begin()
        self.meter.begin()
        self._after_step(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Book the step, then whatever is due after it."""
        trainer, journal = self.trainer, self.journal
        step, figures = trainer.last.step, trainer.last_figures
        rates = self.meter.stepped(trainer.last.tokens, trainer.last.waited_s)
        journal.seconds += self.meter.seconds
        journal.position = step.end
        journal.ledger.append(ledger_line(self.pack, step))
        epoch = round(step.end / self.order.windows, 6)
        self._row(step=step.number, **figures, tokens=trainer.last.tokens, **rates, epoch=epoch)
        self.context.progress(
            "training",
            done=step.number,
            total=self.order.steps,
            loss=figures["loss"],
            tokens_per_s=rates["tokens_per_s"],
            eta_s=self.meter.eta_s(self.order.steps - step.number),
        )
        self._after_step(step.number)

    def _after_step(self, step: int) -> None:
        """Stop, validate and save, each where it is due. Raises Preempted after saving where a stop was asked for."""
        self._stop_if_asked(step)
        every = self.cadence.validate_steps
        due = step == self.order.steps or (every is not None and step > 0 and step % every == 0)
        if due and len(self.validation) and not self.journal.validated(step):
            self._validate(step)
        if self.saver.saved < step < self.order.steps and self.saver.due(step):
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
            if step > self.saver.saved:
                self._save(step)
            raise Preempted

    def _validate(self, step: int) -> None:
        began = time.monotonic()
        self.context.progress("validating", done=step, total=self.order.steps)
        loss = validation_loss(
            self.trainer.model,
            self.trainer.objective,
            self.validation,
            self.trainer.args.device,
            self.trainer.reader.micro_windows,
            lambda: self._stop_if_asked(step),
        )
        if finite(loss):
            self._row(step=step, validation_loss=loss)
        self._set_aside(time.monotonic() - began)

    def _save(self, step: int) -> None:
        self._set_aside(self.saver.save(step, self.trainer, self.journal))

    def _set_aside(self, seconds: float) -> None:
        """Count what stood between two steps as training time, but not as that of the next step."""
        self.journal.seconds += seconds
        self.meter.set_aside(seconds)

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
