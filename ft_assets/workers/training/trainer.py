"""Transformers' Trainer, reading packed windows in our order: one of its batches is one whole optimizer step.

Adapters, optimizer, precision, clipping and devices are Transformers' and PEFT's. Ours are the order of the data, the
isolation of documents, the warm-up, the sharding, the computation of adapters (``variants/fused_lora.py``), and a loss
that synchronises with the device once per step instead of once per micro-batch.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import AutocastKwargs
from numpy.typing import NDArray
from torch.optim.lr_scheduler import LambdaLR
from transformers import PrinterCallback, SchedulerType, Trainer, TrainerCallback, TrainingArguments, set_seed

from ft_assets.settings.recipe.training import LoraSettings, SettledTraining
from ft_assets.workers.packs.isolation.batches import MicroBatch
from ft_assets.workers.packs.isolation.forward import token_losses
from ft_assets.workers.packs.sampler import Order, Step
from ft_assets.workers.training.distributed.sharding import Sharding
from ft_assets.workers.training.methods.objective import Objective, surveyed
from ft_assets.workers.training.model import with_adapters
from ft_assets.workers.training.muon import MuonAndAdamW
from ft_assets.workers.training.reader import StepBatches, StepReader
from ft_assets.workers.training.rounding import Bits, RoundedAdamW, round_in_8_bits
from ft_assets.workers.training.telemetry.own_time import OwnTime
from ft_assets.workers.training.variants.fused_lora import join_adapters
from ft_assets.workers.training.variants.lora_plus import split_rates
from ft_assets.workers.training.variants.warm_start import start_from


class PackedTrainer(Trainer):
    """Trains on a token pack; ``before_update(step, loss, grad_norm)`` may raise to prevent an optimizer step.

    ``lora`` says which adapters ``model`` gets; without it, all its weights train. ``warm_start`` is a PEFT folder with
    the adapters' first weights. ``muon``: Muon updates the layers' matrices. ``rounded``: trained weights stay in
    bfloat16, with stochastic rounding of their updates; else they are held in float32. ``poll`` is called before each
    part of a step. ``sharding`` says how several ranks hold the model.
    After each step ``last`` has what it read, ``last_figures`` its loss, gradient norm (before clipping), learning
    rate and the objective's figures, ``own_time`` the time that this rank worked by itself.
    """

    def __init__(
        self,
        *,
        model: Any,
        args: TrainingArguments,
        reader: StepReader,
        objective: Objective,
        before_update: Callable[[Step, float, float], None],
        poll: Callable[[], None] = lambda: None,
        sharding: Sharding | None = None,
        lora: LoraSettings | None = None,
        warm_start: Path | None = None,
        muon: bool = False,
        rounded: bool = False,
        callbacks: list[TrainerCallback] | None = None,
    ):
        self.sharding = sharding or Sharding()
        self.reader, self._before_update, self._poll = reader, before_update, poll
        self.objective: Objective = objective
        self._lora, self._muon, self._rounded = lora, muon, rounded
        self.last: StepBatches
        self.last_figures: dict[str, float] = {}
        self._parts: torch.Tensor
        # For the adapters' first weights.
        set_seed(args.seed)
        if lora is not None:
            with self.sharding.adapting():
                model = with_adapters(model, lora)
            if warm_start is not None:
                start_from(model, warm_start)
            if args.activation_checkpointing:
                model.enable_input_require_grads()
        super().__init__(
            model=model, args=args, train_dataset=range(len(reader.pack)), data_collator=dict, callbacks=callbacks
        )
        self.remove_callback(PrinterCallback)
        self.own_time = OwnTime(self.args.device)
        if args.activation_checkpointing:
            # Autocast would keep a copy of every weight to the end of a forward pass, although nothing needs it then.
            self.accelerator.autocast_handler = AutocastKwargs(cache_enabled=False)
        if not rounded:
            train_in_float32(self.model)
        join_adapters(self.model)

    def get_train_dataloader(self) -> Any:
        return self.reader

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        """Forward and backward of one whole optimizer step; see ``methods/objective.py`` for what is added up."""
        read: StepBatches = inputs["read"]
        ranks = self.reader.ranks
        ranks.draw_afresh(self.args.seed, read.step.number)
        self.own_time.begin(read.waited_s)
        if self.objective.sums or self.sharding.gathers or ranks.context is not None:
            self.own_time.exchange()
        parts = torch.zeros(1 + len(self.objective.figures), device=self.args.device)
        with self.compute_loss_context_manager():
            pairs = self._drawing(read, ranks.all_parts)
            total = surveyed(self.objective, model, pairs, read.whole, ranks, self.args.device)
        for place, (part_of, (batch, reference)) in enumerate(
            zip(read.parts, self._drawing(read), strict=True), start=1
        ):
            last = place == len(read.batches)
            with self.sharding.micro_batch(model, last=last), self.compute_loss_context_manager():
                if batch.learned:
                    self._poll()
                    part = self.objective.part(model, batch.to(self.args.device), total, reference)
                    # The ranks' gradients get averaged, but the step's gradient is their sum.
                    loss = part.loss * ranks.world if self.sharding.averages and ranks.world > 1 else part.loss
                    if last:
                        self.own_time.exchange()
                    self.sharding.backward(self.accelerator, model, loss)
                    parts += torch.stack([part.loss.detach(), *(part.figures[name] for name in self.objective.figures)])
                elif self.sharding.averages and not ranks.alone:
                    # There is nothing to learn, but the other ranks wait for this one's exchange.
                    nothing = token_losses(model, batch.to(self.args.device)).sum()
                    if last:
                        self.own_time.exchange()
                    self.sharding.backward(self.accelerator, model, nothing)
            if last or part_of != read.parts[place]:
                self.sharding.end_part(model)
        self.sharding.complete_gradients(model, ranks)
        self.last, self._parts = read, parts
        return parts[0]

    def _drawing(self, read: StepBatches, above: int = 0) -> Iterator[tuple[MicroBatch, NDArray[Any] | None]]:
        """The micro-batches with their references. Before the first one of each virtual rank, its random draws are
        seeded by its number plus ``above``."""
        ranks, before = self.reader.ranks, -1
        for part, batch, reference in zip(read.parts, read.batches, read.references, strict=True):
            if ranks.virtual and part != before:
                ranks.draw_afresh(self.args.seed, read.step.number, above + part)
            before = part
            yield batch, reference

    def rehearse(self) -> None:
        """Forward and backward of the run's first micro-batch, without any effect, even on random generators."""
        devices = [self.args.device] if self.args.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            self.training_step(self.model_wrapped, {"read": self.reader.first_batch()})
        self.model_wrapped.zero_grad(set_to_none=True)

    def _clip_grad_norm(self, model: Any) -> Any:
        return None if self.sharding.clips else super()._clip_grad_norm(model)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        optimizer = super().create_optimizer(model)
        if self._muon:
            self.optimizer = optimizer = MuonAndAdamW(optimizer, self.model)
        if self._rounded:
            bits = Bits(self.args.seed, self.sharding.part)
            if isinstance(optimizer, torch.optim.AdamW):
                self.optimizer = optimizer = RoundedAdamW(optimizer, bits)
            else:
                round_in_8_bits(optimizer, bits)
        if self._lora is not None and self._lora.lora_plus_ratio is not None:
            split_rates(optimizer, model or self.model, self._lora.lora_plus_ratio)
        return optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None) -> LambdaLR:
        args, used = self.args, optimizer or self.optimizer
        assert used is not None
        share = partial(
            rate_share,
            SchedulerType(args.lr_scheduler_type).value,
            warmup=int(args.warmup_steps),
            steps=num_training_steps,
        )
        self.lr_scheduler, self._created_lr_scheduler = LambdaLR(used, share), True
        return self.lr_scheduler

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        """The only place between backward and update that knows the gradient's norm; here the host waits, once."""
        if self.sharding.clips:
            norm: Any = self.sharding.gradient_norm(model)
        else:
            norm = self.sharding.whole(super()._get_grad_norm(model, grad_norm=grad_norm))
        assert self.optimizer is not None
        together = torch.cat([self.reader.ranks.total(self._parts), torch.as_tensor(norm).to(self._parts).reshape(1)])
        loss, *figures, grad_norm = together.tolist()
        self.last_figures = {
            "loss": loss,
            "grad_norm": grad_norm,
            "learning_rate": float(self.optimizer.param_groups[0]["lr"]),
            **dict(zip(self.objective.figures, figures, strict=True)),
        }
        if overflowed(self.accelerator.scaler, grad_norm) and math.isfinite(loss):
            del self.last_figures["grad_norm"]
        else:
            self._before_update(self.last.step, loss, grad_norm)
        return norm

    @property
    def pace(self) -> "Pace":
        """The part of a run's state besides weights, optimizer and random generators."""
        return Pace(self.lr_scheduler, self.accelerator.scaler)

    def _wrap_model(self, model: Any, training: bool = True, dataloader: Any = None) -> Any:
        if not training or self.reader.ranks.alone:
            return model
        wrapped, self.optimizer = self.sharding.wrap(self.accelerator, model, self.optimizer, self.args.max_grad_norm)
        return wrapped

    def _sync_replicated_trainable_parameters(self, model: Any) -> None:
        """Does nothing: Transformers' own needs an average that only NCCL has; ``complete_gradients`` does it."""

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """Not counted: Transformers would walk over all parameters in each step."""
        return 0


def rate_share(schedule: str, done: int, *, warmup: int, steps: int) -> float:
    """The factor of the learning rate in the step after ``done`` of ``steps``.

    It is k / ``warmup`` in step k of the warm-up: with Transformers' schedules the first step would have a rate of 0
    and learn nothing. Afterwards it falls like theirs, from 1 towards 0.
    """
    if done < warmup:
        return (done + 1) / warmup
    left = (steps - done) / max(1, steps - warmup)
    return {"cosine": (1 - math.cos(math.pi * left)) / 2, "linear": left, "constant_with_warmup": 1.0}[schedule]


def train_in_float32(model: Any) -> None:
    """Convert trained weights to float32, and so the optimizer's moments: in bfloat16 small updates vanish. Call it
    before the optimizer is made."""
    for weight in model.parameters():
        if weight.requires_grad and weight.dtype != torch.float32:
            weight.data = weight.data.float()


class OneGpu(TrainingArguments):
    """For training on one GPU, even if the process sees several: else Transformers would use DataParallel."""

    @property
    def n_gpu(self) -> int:
        return min(super().n_gpu, 1)


def trainer_config(
    training: SettledTraining, order: Order, scratch: Path, device: str, *, recompute: int = 0, offload: bool = False
) -> TrainingArguments:
    """The recipe's settings as Transformers takes them; everything that would save, log, report or fetch is off."""
    recomputation = {"use_reentrant": False, "every_n_layers": recompute, "offload": offload}
    names = {"cosine": "cosine", "linear": "linear", "constant": "constant_with_warmup"}
    return OneGpu(
        output_dir=str(scratch / "trainer"),
        max_steps=order.steps,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=1,
        learning_rate=training.learning_rate,
        lr_scheduler_type=names[training.schedule],
        warmup_steps=math.ceil(training.warmup_ratio * order.steps),
        weight_decay=training.weight_decay,
        max_grad_norm=training.max_grad_norm,
        # Transformers sets Adafactor up with our rate, not with one derived from the step, and the 8-bit AdamW of
        # bitsandbytes with 32 bits for embeddings, whose rare rows need more.
        optim="adamw_torch_fused" if training.optimizer in ("adamw", "muon") else training.optimizer,
        seed=training.seed,
        bf16=training.precision in ("bf16", "fp8"),
        fp16=training.precision == "fp16",
        use_cpu=device == "cpu",
        activation_checkpointing=recompute > 0,
        activation_checkpointing_kwargs=recomputation if recompute else None,
        save_strategy="no",
        logging_strategy="no",
        eval_strategy="no",
        report_to="none",
        disable_tqdm=True,
        logging_nan_inf_filter=False,
        remove_unused_columns=False,
    )


def overflowed(scaler: Any, grad_norm: float) -> bool:
    """Whether a gradient of this norm overflowed because of the loss scale, so that its update is skipped.

    ``scaler`` is PyTorch's GradScaler; None if the precision needs none. A non-finite gradient counts as an overflow
    only while a loss scale above 1 is in use.
    """
    return scaler is not None and not math.isfinite(grad_norm) and scaler.get_scale() > 1.0


class Pace:
    """The learning-rate schedule and, under fp16, the loss scale: training state beside weights and moments. Has a
    scheduler's interface, so that it is saved like one."""

    def __init__(self, schedule: Any, scaler: Any) -> None:
        self._schedule, self._scaler = schedule, scaler

    def state_dict(self) -> dict[str, Any]:
        """JSON values."""
        state = dict(self._schedule.state_dict())
        return state if self._scaler is None else state | {"loss_scale": self._scaler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        rest = dict(state)
        scale = rest.pop("loss_scale", None)
        self._schedule.load_state_dict(rest)
        if self._scaler is not None and scale is not None:
            self._scaler.load_state_dict(scale)
