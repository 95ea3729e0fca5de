"""TRL's SFTTrainer, reading packed windows in our order: one of its batches is one whole optimizer step.

What stays TRL's and Transformers': adapters, optimizer, schedule, precision, clipping, devices. Ours are the order of
the data, the isolation of documents, and a loss that makes the device wait once a step and not once a micro-batch.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from torch.nn.functional import cross_entropy
from transformers import PrinterCallback
from trl import SFTConfig, SFTTrainer

from ft_assets.checkpoints.sampler import Order, Step
from ft_assets.packs.format import Pack
from ft_assets.packs.isolation.batches import MicroBatch, micro_batch, split_windows
from ft_assets.packs.isolation.losses import learned_logits
from ft_assets.recipes.models import TrainingSettings


class StepReader:
    """Yields ``{"step": Step, "batches": [MicroBatch]}``, from where ``position`` points when reading begins."""

    def __init__(self, pack: Pack, order: Order, micro_windows: int) -> None:
        self.pack, self.order, self.micro_windows = pack, order, micro_windows
        self.position = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for step in self.order.read(self.position):
            pieces = split_windows(step.windows, self.micro_windows)
            yield {"step": step, "batches": [micro_batch(self.pack, piece) for piece in pieces]}


class PackedTrainer(SFTTrainer):
    """Trains on a token pack; ``before_update(step, loss, grad_norm)`` may raise to prevent an optimizer step."""

    def __init__(self, *, reader: StepReader, before_update: Callable[[Step, float, float], None], **kwargs: Any):
        self.reader, self._before_update = reader, before_update
        self.step: Step
        self.step_loss: torch.Tensor
        self.step_tokens = 0
        self.last_loss = self.last_grad_norm = self.last_learning_rate = math.nan
        rows = Dataset.from_dict({"window": range(len(reader.pack))})
        super().__init__(train_dataset=rows, data_collator=dict, **kwargs)
        self.remove_callback(PrinterCallback)

    def get_train_dataloader(self) -> Any:
        return self.reader

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        """Forward and backward of one whole optimizer step.

        The loss is the mean over the learned tokens of the whole global batch, so that neither the size of a
        micro-batch nor how the learned tokens are spread over them changes its meaning.
        """
        batches: list[MicroBatch] = inputs["batches"]
        learned = sum(batch.learned for batch in batches)
        total = torch.zeros((), device=self.args.device)
        for batch in batches:
            # Nothing to learn is nothing to compute, and its gradient would be zero.
            if batch.learned:
                with self.compute_loss_context_manager():
                    loss = summed_loss(model, batch.to(self.args.device)) / learned
                self.accelerator.backward(loss)
                total += loss.detach()
        self.step, self.step_loss, self.step_tokens = inputs["step"], total, sum(batch.tokens for batch in batches)
        return total

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        """The one place between backward and update that knows the gradient's norm; here the host waits, once."""
        norm = super()._get_grad_norm(model, grad_norm=grad_norm)
        self.last_loss, self.last_grad_norm = float(self.step_loss), float(norm)
        assert self.optimizer is not None
        self.last_learning_rate = float(self.optimizer.param_groups[0]["lr"])
        self._before_update(self.step, self.last_loss, self.last_grad_norm)
        return norm

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """Not counted: Transformers would walk over all parameters in each step."""
        return 0


def summed_loss(model: Any, batch: MicroBatch) -> torch.Tensor:
    """Cross-entropy summed over the learned tokens of ``batch``, in nats, float32."""
    return cross_entropy(learned_logits(model, batch), batch.targets, reduction="sum")


@torch.no_grad()
def mean_loss(model: Any, pack: Pack, device: torch.device, windows: int, poll: Callable[[], None]) -> float:
    """Mean cross-entropy over every learned token of ``pack``, in nats; ``poll`` is called between batches.

    NaN where the pack has no learned token. The model is left in the mode it was in.
    """
    training = model.training
    model.eval()
    total, learned = 0.0, 0
    try:
        for start in range(0, len(pack), windows):
            poll()
            batch = micro_batch(pack, range(start, min(start + windows, len(pack)))).to(device)
            if batch.learned:
                total += float(summed_loss(model, batch))
                learned += batch.learned
    finally:
        model.train(training)
    return total / learned if learned else math.nan


def trainer_config(training: TrainingSettings, order: Order, scratch: Path, device: str) -> SFTConfig:
    """The recipe's settings in TRL's words; everything that would save, log, report or fetch is off."""
    assert isinstance(training.learning_rate, float)
    names = {"cosine": "cosine", "linear": "linear", "constant": "constant_with_warmup"}
    return SFTConfig(
        output_dir=str(scratch / "trl"),
        max_steps=order.steps,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=1,
        learning_rate=training.learning_rate,
        lr_scheduler_type=names[training.schedule],
        warmup_steps=math.ceil(training.warmup_ratio * order.steps),
        weight_decay=training.weight_decay,
        max_grad_norm=training.max_grad_norm,
        optim="adamw_torch_fused",
        seed=training.seed,
        bf16=training.precision == "bf16",
        use_cpu=device == "cpu",
        activation_checkpointing=False,
        save_strategy="no",
        logging_strategy="no",
        eval_strategy="no",
        report_to="none",
        disable_tqdm=True,
        logging_nan_inf_filter=False,
        remove_unused_columns=False,
        dataset_kwargs={"skip_prepare_dataset": True},
    )
