"""One optimizer step on a CPU: the worker's training beside a plain PyTorch loop and TRL's SFTTrainer as it comes.

All three see the same documents of equal length, half of their tokens masked, as many in each step, with the demo's
model in float32 on two threads. Equal lengths need no padding, so nothing is gained by packing: only what is computed
and what is spent around it differ. They run in turn, a few steps a round, in one process; a round gives one ratio.
"""

import gc
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import Figure
from benchmarks.trainer_data import made_documents, plain_rows, write_packs
from benchmarks.trainer_job import ALPHA, BASE, LEARNING_RATE, RANK, Job, steps_s
from ft_assets.workers.packs.format import Pack

THREADS = 2
_LENGTH, _WINDOW, _WINDOWS = 128, 512, 4
_VOCABULARY = 3072
_WARM = 3
_GOAL = 0.92


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratios:
    """Medians over rounds: ours to the loop's and TRL's to the loop's seconds a step; ``loop_s`` are the loop's."""

    ours: float
    trl: float | None
    loop_s: float


def measure(variant: str, *, rounds: int = 5, steps: int = 10, with_trl: bool = True) -> Ratios:
    """Ratios for ``variant`` (``lora`` as the demo's, or ``full``)."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        with tempfile.TemporaryDirectory(prefix="ft-benchmark-") as name:
            folder = Path(name)
            documents = made_documents(np.full(32 * _WINDOW // _LENGTH, _LENGTH), _VOCABULARY)
            pack = write_packs(documents, folder / "pack", _WINDOW)
            job = Job(folder)
            found = [_round(job, pack, variant, steps + _WARM, with_trl, folder) for _ in range(rounds + 1)][1:]
    finally:
        torch.set_num_threads(threads)
    return Ratios(
        ours=statistics.median(ours / loop for ours, loop, _ in found),
        trl=statistics.median(trl / loop for _, loop, trl in found if trl) if with_trl else None,
        loop_s=statistics.median(loop for _, loop, _ in found),
    )


def figures(lora: Ratios, full: Ratios) -> list[Figure]:
    """Table rows of what ``measure`` found of the demo's variant, ``lora``, and of ``full``."""
    return [
        Figure(
            key=key,
            what=f"a step of the demo's model, {name} / a plain PyTorch loop's ({found.loop_s * 1000:,.0f} ms)",
            ours=found.ours,
            peer=found.trl,
            peer_is="stock TRL / the loop",
            goal=f"<= {_GOAL}",
            met=found.ours <= _GOAL,
        )
        for key, name, found in (
            ("cpu_step_vs_loop", "LoRA", lora),
            ("cpu_full_step_vs_loop", "all weights", full),
        )
    ]


def _round(
    job: Job, pack: Pack, variant: str, steps: int, with_trl: bool, folder: Path
) -> tuple[float, float, float | None]:
    """Median seconds of a step: ours, the loop's, TRL's; the loop runs before and behind ours, as load drifts."""
    import torch

    before = _loop(pack, variant, steps)[_WARM:]
    ours = steps_s(job.run(variant=variant, windows=_WINDOWS, steps=steps))
    torch.use_deterministic_algorithms(False)
    behind = _loop(pack, variant, steps)[_WARM:]
    trl = statistics.median(_trl(pack, variant, steps, folder)[_WARM:]) if with_trl else None
    gc.collect()
    return statistics.median(ours[_WARM:]), statistics.median(before + behind), trl


def _model(variant: str) -> Any:
    """The demo's base as anyone would load it, with PEFT's adapters for ``lora``."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(BASE, dtype=torch.float32)
    if variant == "lora":
        from peft import get_peft_model

        model = get_peft_model(model, peft_config())
    return model.train()


def peft_config() -> Any:
    from peft import LoraConfig

    return LoraConfig(
        task_type="CAUSAL_LM", r=RANK, lora_alpha=ALPHA, lora_dropout=0.0, target_modules="all-linear", bias="none"
    )


def _loop(pack: Pack, variant: str, steps: int) -> list[float]:
    """Seconds of each step of what one would write by hand: all logits, cross-entropy, clipping, AdamW."""
    import torch
    from torch.nn.functional import cross_entropy

    model = _model(variant)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=LEARNING_RATE, weight_decay=0.0)
    batches = _batches(pack)
    seconds, last = [], time.perf_counter()
    for _ in range(steps):
        ids, labels = next(batches)
        logits = model(input_ids=ids).logits
        loss = cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
        now = time.perf_counter()
        seconds.append(now - last)
        last = now
    return seconds


def _batches(pack: Pack) -> Iterator[tuple[Any, Any]]:
    """Tokens and labels, int64 [documents of a step, tokens], again and again; -100 is masked."""
    import torch

    ids, learned = plain_rows(pack)
    labels = np.where(learned, ids, -100)
    rows = _WINDOWS * _WINDOW // _LENGTH
    while True:
        for start in range(0, len(ids), rows):
            yield torch.from_numpy(ids[start : start + rows]), torch.from_numpy(labels[start : start + rows])


def _trl(pack: Pack, variant: str, steps: int, folder: Path) -> list[float]:
    """Seconds of each step of TRL's trainer on tokenized rows; without recomputation, which it does by default."""
    import datasets
    from transformers import AutoTokenizer, TrainerCallback
    from trl import SFTConfig, SFTTrainer

    seconds: list[float] = []

    class Clock(TrainerCallback):
        last = 0.0

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.last = time.perf_counter()

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            now = time.perf_counter()
            seconds.append(now - self.last)
            self.last = now

    datasets.disable_progress_bars()
    ids, learned = plain_rows(pack)
    rows = datasets.Dataset.from_dict({"input_ids": ids.tolist(), "labels": np.where(learned, ids, -100).tolist()})
    args = SFTConfig(
        output_dir=str(folder / "trl"),
        max_steps=steps,
        per_device_train_batch_size=_WINDOWS * _WINDOW // _LENGTH,
        learning_rate=LEARNING_RATE,
        max_length=_LENGTH,
        bf16=False,
        use_cpu=True,
        activation_checkpointing=False,
        dataset_kwargs={"skip_prepare_dataset": True},
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
    )
    model: Any = _model("full")
    SFTTrainer(
        model=model,
        args=args,
        train_dataset=rows,
        processing_class=AutoTokenizer.from_pretrained(BASE),
        peft_config=peft_config() if variant == "lora" else None,
        callbacks=[Clock()],
    ).train()
    return seconds
