"""Stock TRL on the same documents, at the best settings that keep documents apart.

Weights, precision, optimizer and recomputation are as in ours. Rows are packed by TRL's best-fit; flash-attn is used
where it is installed, else SDPA with the mask that Transformers makes of positions.
"""

# ruff: noqa: TID253 -- imported by the program that measures torch.

import importlib.util
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

from benchmarks.gpu_case import Clock
from benchmarks.gpu_cases import ALPHA, RANK, Case
from benchmarks.trainer_job import LEARNING_RATE
from ft_assets.workers.packs.format.spool import Batch


class _CountingTrainer(SFTTrainer):
    """TRL's, which is asked how many tokens a step read; nothing else is changed."""

    read = 0

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        self.read += inputs["input_ids"].numel()
        return super().training_step(model, inputs, num_items_in_batch)

    def take(self) -> int:
        """Tokens read since this was asked last."""
        read, self.read = self.read, 0
        return read


def trl_trainer(case: Case, documents: Batch, base: Path, folder: Path) -> tuple[SFTTrainer, Clock]:
    """A trainer and the clock that is in it."""
    optimizers = {"adamw": "adamw_torch_fused", "muon": "adamw_torch_fused", "adamw_unfused": "adamw_torch"}
    recomputation = {"use_reentrant": False, "every_n_layers": case.recompute_every, "offload": case.offload}
    datasets.disable_progress_bars()
    edges = documents.offsets[1:-1]
    ids = [row.tolist() for row in np.split(documents.input_ids, edges)]
    masked = np.where(documents.learned, documents.input_ids, -100)
    labels = [row.tolist() for row in np.split(masked, edges)]
    rows = datasets.Dataset.from_dict({"input_ids": ids, "labels": labels})
    args = SFTConfig(
        output_dir=str(folder / "trl"),
        max_steps=case.warm + case.steps,
        per_device_train_batch_size=case.micro,
        gradient_accumulation_steps=case.accumulate,
        learning_rate=LEARNING_RATE,
        optim=optimizers.get(case.optimizer, case.optimizer),
        max_length=case.window,
        packing=case.documents > 0,
        bf16=True,
        use_cpu=case.device == "cpu",
        activation_checkpointing=case.recompute,
        activation_checkpointing_kwargs=recomputation if case.recompute else None,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = _CountingTrainer(
        model=_model(case, base),
        args=args,
        train_dataset=rows,
        processing_class=AutoTokenizer.from_pretrained(base),
        peft_config=_lora() if case.variant != "full" else None,
    )
    clock = Clock(case, trainer.take)
    trainer.add_callback(clock)
    return trainer, clock


def _model(case: Case, base: Path) -> Any:
    dtype = getattr(torch, case.weights) if case.variant == "full" else torch.bfloat16
    four_bit = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    flash = case.device == "cuda" and importlib.util.find_spec("flash_attn") is not None
    held = {"quantization_config": four_bit, "device_map": {"": case.device}} if case.variant == "qlora" else {}
    return AutoModelForCausalLM.from_pretrained(
        base, dtype=dtype, attn_implementation="flash_attention_2" if flash else "sdpa", **held
    )


def _lora() -> LoraConfig:
    return LoraConfig(
        task_type="CAUSAL_LM", r=RANK, lora_alpha=ALPHA, lora_dropout=0.0, target_modules="all-linear", bias="none"
    )
