"""The training loop of one attempt around the optimizer steps: resuming, recording, validation, saves, stops."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import math
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any, NoReturn

from numpy.typing import NDArray
from transformers import TrainerCallback

from ft_assets.settings.recipe.training import EarlyStoppingSettings
from ft_assets.workers.packs.format import CachedFiles, Pack
from ft_assets.workers.packs.format.prefetch import Prefetch
from ft_assets.workers.packs.isolation.apart import padding_share
from ft_assets.workers.packs.isolation.architectures import length_with_fixed_positions
from ft_assets.workers.packs.isolation.batches import as_row, split_windows
from ft_assets.workers.packs.isolation.forward import runs_apart
from ft_assets.workers.packs.isolation.leak_check import compare, require_causal
from ft_assets.workers.packs.isolation.output_layer import transformer_of
from ft_assets.workers.packs.sampler import Order
from ft_assets.workers.training.compiled import forgive_later_failures, uncompile
from ft_assets.workers.training.data_ledger import ledger_line
from ft_assets.workers.training.divergence import Watch, clueless_loss
from ft_assets.workers.training.early_stopping import stopping_step
from ft_assets.workers.training.failing_example import examples_blamed, forward_alone
from ft_assets.workers.training.journal import NOT_FINITE, Cadence, Journal
from ft_assets.workers.training.kept_weights import BestWeights
from ft_assets.workers.training.memory import is_out_of_memory
from ft_assets.workers.training.saver import Saver
from ft_assets.workers.training.state import RandomStates, random_states
from ft_assets.workers.training.stop_requests import Stops
from ft_assets.workers.training.telemetry.live import Meter, Telemetry
from ft_assets.workers.training.telemetry.report import validation_figures
from ft_assets.workers.training.trainer import PackedTrainer
from ft_assets.workers.training.validation import validation_loss
from ft_resources.errors import UserError
from ft_resources.worker_context import Preempted, WorkContext

_COMPARED, _LOOKED_AT, _JOINED = 3, 16, 2
"""Documents compared before the first step; rows searched for them; most windows of such a row."""
_SHORT = 300
_PADDED_ROWS = 200
"""Rows of the first step whose padding is counted."""


class TrainingLoop(TrainerCallback):
    """Callbacks around each optimizer step: resume before the first, then record, validate, save and stop."""

    def __init__(
        self,
        context: WorkContext,
        pack: Pack,
        validation: Pack,
        order: Order,
        cadence: Cadence,
        reference: NDArray[Any] | None = None,
    ) -> None:
        """``reference`` has a log-probability for each document of ``validation``."""
        self.context, self.pack, self.validation, self.reference = context, pack, validation, reference
        self.order, self.cadence = order, cadence
        self.journal, self.saver = Journal(), Saver(context, cadence)
        self.meter: Meter
        self.telemetry = Telemetry(context, pack, self.journal)
        self.watch: Watch
        self.trainer: PackedTrainer
        self.best_weights: BestWeights | None = None
        self.early_stopping: EarlyStoppingSettings | None = None
        self.compiled: list[Any] = []
        self._stops: Stops
        self._ahead: Prefetch | None = None
        self._random: RandomStates
        # The last finished step.
        self._stood = 0
        # The run's last step, as far as is known by now.
        self._last = order.steps
        # The number of finished micro-batches of the current step; None between steps.
        self._done: int | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Resume from the newest valid save of this run, if there is one."""
        ranks = self.trainer.reader.ranks
        self._stops = Stops(self.context, ranks)
        # Nothing to save yet: a stop ends the run at once.
        with self.context.abrupt():
            save = self.saver.find_together(ranks)
            if save is not None:
                self.saver.resume(save, self.trainer, self.journal)
                ranks.together()
                if ranks.local == 0:
                    # It is as large as the next save, which needs the room.
                    shutil.rmtree(save.folder)
                state.global_step = save.record.step
            self._settle_last_step()
            if ranks.local == 0:
                # Once per node, as its ranks read the same windows and share the fetched files.
                self._ahead = fetch_ahead(self.pack, self.validation, self.order, self.journal.position)
            # A loaded base is in evaluation mode, even if its adapters are in training mode.
            model: Any = self.trainer.model
            model.train()
            if self.compiled:
                self._compile()
            self._prove_isolation()
        clueless = clueless_loss(self.context.params, model.config.get_text_config().vocab_size)
        self.watch = Watch(self.pack, self.order.steps, clueless, self.journal.rows)
        self.telemetry.begin(args.device, ranks, self.order.steps)
        self.saver.begin()
        self.meter = Meter()
        self._after_step(state.global_step)
        if self.stopped_early:
            # Saved after its last step: nothing is left to read.
            self.trainer.reader.position = self.order.windows * self.order.epochs

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._done = 0
        self._stops.step_begins()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record the step, then do what is due after it."""
        trainer, journal = self.trainer, self.journal
        self._done = None
        self._stops.step_ended()
        step, figures = trainer.last.step, trainer.last_figures
        rates = self.meter.stepped(trainer.last.tokens, trainer.last.waited_s)
        rates |= self.telemetry.figures(trainer.last, self.meter.seconds, trainer.own_time.seconds)
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
            save_s=round(self.saver.predicted_s(trainer), 1),
            alerts=self.telemetry.alerts,
            **({"gpus": trainer.reader.ranks.world} if trainer.reader.ranks.virtual else {}),
        )
        self._after_step(step.number)
        if self.stopped_early:
            print(f"stopped early, after step {step.number} of {self.order.steps}", flush=True)
            control.should_training_stop = True

    def _settle_last_step(self) -> None:
        """Call it after each validation."""
        self._last = stopping_step(self.journal.rows, self.early_stopping, self.order.steps) or self.order.steps

    @property
    def stopped_early(self) -> bool:
        """Whether the run has ended with fewer steps than planned."""
        return self._stood == self._last < self.order.steps

    def _after_step(self, step: int) -> None:
        """Stop, validate and save, each if due. Raises Preempted (after saving) if a stop was requested, and the error
        of a save in progress."""
        self._stood, self._random = step, random_states()
        self._stops.expect_save_s(self.saver.predicted_s(self.trainer))
        self.saver.require_well()
        self._stop_if_asked()
        every = self.cadence.validate_steps
        due = step == self.order.steps or (every is not None and step > 0 and step % every == 0)
        if due and len(self.validation) and not self.journal.validated(step):
            self._validate(step)
        ranks = self.trainer.reader.ranks
        # Clocks differ between ranks, so all follow the first, which writes.
        due = self.saver.pays(self.trainer) if step == self._last else self.saver.due(step)
        if ranks.any(ranks.first and due and self.saver.begun < step and not self.watch.suspicious):
            self._save()

    def between_micro_batches(self) -> None:
        """On a stop request within a step: finish the step if there is time to save it, otherwise abandon it."""
        if self._done is None or not self.trainer.reader.ranks.alone:
            return
        done, self._done = self._done, self._done + 1
        if self._stops.asked():
            of = -(-self.order.global_batch // self.trainer.reader.micro_windows)
            rest = self._stops.rest_of_step_s(done, of)
            # A step that has not begun is not worth waiting for.
            if not done or not self._stops.fits(rest + self.saver.predicted_s(self.trainer)):
                self._end()

    @contextmanager
    def accountable(self) -> Iterator[None]:
        """During training: name the example that makes a step fail, and finish a save in progress however training
        ends; after a stop request, only within the grace period."""
        try:
            computes = self.trainer.args.device.type == "cpu" and self.trainer.reader.ranks.alone
            with examples_blamed(
                self.pack,
                self.order,
                lambda: self.journal.position,
                lambda window: forward_alone(self.trainer.model, window, computes=computes),
            ):
                yield
        except Preempted:
            raise
        except BaseException:
            # The first error counts.
            with suppress(Exception):
                self.saver.finish()
            raise
        else:
            self.saver.finish()
        finally:
            if self._ahead is not None:
                self._ahead.close()
            self.telemetry.end()

    def _compile(self) -> None:
        """Compile with the run's first micro-batch, so that a resumed run compiles the same as the first attempt.

        If that fails, the run continues uncompiled, unless ranks gather weights in each forward pass: then the others
        wait for the one that failed.
        """
        self.context.progress("compiling")
        began, ranks = time.monotonic(), self.trainer.reader.ranks
        problem: Exception | None = None
        try:
            self.trainer.rehearse()
        except Exception as error:  # Compilers raise anything.
            if is_out_of_memory(error):
                raise
            if self.trainer.sharding.gathers:
                raise UserError(
                    f"the layers cannot be compiled ({_in_short(error)})",
                    where="training.compile",
                    remedy="Use compile: off in a new recipe version.",
                ) from error
            problem = error
        if ranks.any(problem is not None):
            uncompile(self.compiled)
            self.compiled = []
            what = _in_short(problem) if problem else "another rank failed"
            print(f"the layers cannot be compiled, so training continues without ({what})", flush=True)
        else:
            forgive_later_failures()
            print(f"compiling took {time.monotonic() - began:.1f} s", flush=True)

    def _prove_isolation(self) -> None:
        """Compare documents packed and alone, with this run's model; raises Leak before anything is learned."""
        self.context.progress("comparing packed and alone")
        model = self.trainer.model
        assert model is not None
        windows = first_shared(self.pack, self.order, self.trainer.reader.micro_windows)
        half, compiled = self.trainer.args.bf16, bool(self.compiled)
        comparison = compare(
            model,
            self.pack,
            windows,
            documents=_COMPARED,
            half_precision=half,
            compiled=compiled,
            context=self.trainer.reader.ranks.context,
        )
        self.journal.isolation |= comparison.figures()
        if runs_apart(model):
            require_causal(model, as_row(self.pack.read(windows)), half_precision=half, compiled=compiled)
            limit = length_with_fixed_positions(transformer_of(model).config)
            rows = split_windows(next(iter(self.order.read())).windows, self.trainer.reader.micro_windows)
            self.journal.isolation["padding"] = padding_share(self.pack, rows[:_PADDED_ROWS], limit)
        comparison.require()

    def _stop_if_asked(self) -> None:
        if self._stops.asked():
            self._end()

    def _end(self) -> NoReturn:
        """End the run after its last step, saving it if that fits into the grace period."""
        if self.saver.begun < self._stood and self._stops.fits(self.saver.predicted_s(self.trainer)):
            self._save()
        self.saver.finish(max(self._stops.left_s(), 0.0))
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
            self._stop_if_asked,
            self.reference,
            ranks=self.trainer.reader.ranks,
        )
        if loss is not None and not math.isfinite(loss):
            self._row(step=step, **{NOT_FINITE: 1})
            self._settle_last_step()
            # There may be no step after this one to report it.
            self.context.progress("validating", done=step, total=self.order.steps, alerts=self.telemetry.alerts)
        elif loss is not None:
            self._row(step=step, **validation_figures(self.context.params["method"], loss))
            told = {"validation_loss": loss, "alerts": self.telemetry.alerts}
            self.context.progress("validating", done=step, total=self.order.steps, **told)
            self._settle_last_step()
            if self.best_weights is not None and self.trainer.reader.ranks.first:
                self.best_weights.validated(self.trainer.model, step, self.journal.rows, last=self._last)
        self._set_aside(time.monotonic() - began)

    def _save(self) -> None:
        self._set_aside(self.saver.save(self._stood, self.trainer, self.journal, self._random))

    def _set_aside(self, seconds: float) -> None:
        """Count time between two steps as training time, but not as the next step's."""
        self.journal.seconds += seconds
        self.meter.set_aside(seconds)

    def _row(self, **row: Any) -> None:
        self.journal.rows.append(row)
        self.context.step(**row)
        self.telemetry.show(row)


def _in_short(error: Exception) -> str:
    """The error in one short line, as compilers' messages are long."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:_SHORT]


def first_shared(pack: Pack, order: Order, micro_windows: int) -> list[int]:
    """The windows of the run's first row in which a document after the first has learned tokens; else the first row."""
    rows = split_windows(next(iter(order.read())).windows, min(micro_windows, _JOINED))
    for row in rows[:_LOOKED_AT]:
        read = pack.read(row)
        if len(read.document_lengths) > 1 and read.learned[read.document_lengths[0] :].any():
            return row
    return rows[0]


def fetch_ahead(pack: Pack, validation: Pack, order: Order, position: int) -> Prefetch | None:
    """Start fetching the files that ``order`` reads from ``pack`` from ``position`` on, then those of ``validation``.

    Both packs share one set of files. Close the result before the files; None if the packs are local.
    """
    if not isinstance(pack.files, CachedFiles):
        return None
    windows = (window for step in order.read(position) for window in step.windows.tolist())
    return pack.files.prefetch(chain(pack.names(windows), validation.names(range(len(validation)))))
