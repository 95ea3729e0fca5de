"""One configuration of the GPU benchmark in a process of its own: ``python -m benchmarks.gpu_case CASE BASE``.

CASE is a ``Case`` as JSON, BASE a folder, which is filled if it is not there. The last line printed is JSON: what was
measured, or ``{"out_of_memory": true}``.
"""

# ruff: noqa: TID253 -- a program of its own that measures torch.

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoConfig, AutoModelForCausalLM, TrainerCallback

from benchmarks.gpu_cases import ALPHA, RANK, Case
from benchmarks.trainer_data import made_documents, write_packs
from benchmarks.trainer_job import BASE, LEARNING_RATE
from ft_assets.workers.packs.format import Pack
from ft_assets.workers.packs.format.spool import Batch
from ft_assets.workers.training.compiled import compile_layers
from ft_assets.workers.training.memory import is_out_of_memory


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """Tokens/s over the timed steps, the most memory that was allocated (bytes; 0 on a CPU), the loss at the end, the
    mean length of the document that a token stands in, and how many parameters were trained."""

    tokens_s: float
    peak_bytes: int
    loss: float
    document_length: float
    trained: int


class Clock(TrainerCallback):
    """Takes the time from the end of step ``warm`` to the end of step ``warm + steps``, the device's work included."""

    def __init__(self, case: Case, tokens: Callable[[], int]) -> None:
        self._case, self._tokens = case, tokens
        self._began, self._read = 0.0, 0
        self.tokens_s = 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        case = self._case
        if state.global_step > case.warm:
            self._read += self._tokens()
        if state.global_step in (case.warm, case.warm + case.steps):
            if case.device == "cuda":
                torch.cuda.synchronize()
            now = time.perf_counter()
            if state.global_step == case.warm:
                self._began = now
            else:
                self.tokens_s = self._read / (now - self._began)


class Waits(TrainerCallback):
    """Lets a timed step of ``trainer`` fail where the host waits for the GPU, but for the one wait that reads its loss
    and gradient norm."""

    def __init__(self, warm: int, trainer: Any) -> None:
        self._warm, self._mode = warm, "default"
        self._read = trainer._get_grad_norm
        trainer._get_grad_norm = self._reading

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        # What is made once, such as optimizer states and workspaces, is made while warming up.
        self._set("error" if state.global_step >= self._warm else "default")

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._set("default")

    def _reading(self, *args: Any, **kwargs: Any) -> Any:
        mode = self._mode
        self._set("default")
        try:
            return self._read(*args, **kwargs)
        finally:
            self._set(mode)

    def _set(self, mode: str) -> None:
        self._mode = mode
        set_waits(mode)


def set_waits(mode: str) -> None:
    """What happens where the host waits for the GPU; nothing without one."""
    if torch.cuda.is_available():
        torch.cuda.set_sync_debug_mode(mode)


def set_attention(kind: str) -> None:
    """Which attention this process uses: see ``Case.attention``."""
    from ft_assets.workers.packs.isolation import attention, varlen
    from ft_assets.workers.packs.isolation.constants import asked_once

    if kind == "documents":
        attention.applies = lambda *_: False
    elif kind == "own":
        varlen.activate, varlen.flash_attn = asked_once(lambda device: ""), asked_once(lambda: None)


def make_base(case: Case, folder: Path) -> None:
    """A model of the case's shape with random weights, in bf16, made on the device, beside the demo's tokenizer."""
    shutil.copytree(BASE, folder, ignore=shutil.ignore_patterns("*.safetensors", "config.json", "*.md"))
    (folder / "config.json").write_text(json.dumps(case.config))
    torch.manual_seed(0)
    with torch.device(case.device):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.bfloat16)
    model.save_pretrained(folder)


def documents_of(case: Case) -> Batch:
    """Documents for a few windows more than a step has; the same for ours and the peer."""
    windows = case.micro * case.accumulate * 2
    tokens = windows * case.window
    if not case.documents:
        lengths: NDArray[np.int64] = np.full(windows, case.window)
    else:
        draws = np.random.RandomState(1)
        drawn = np.exp(draws.standard_normal(4 * tokens // case.documents) * 0.65) * case.documents
        drawn = np.clip(drawn, 8, case.window).astype(np.int64)
        lengths = drawn[: int(np.searchsorted(np.cumsum(drawn), tokens))]
    return made_documents(lengths, case.architecture.vocabulary, masked=case.masked)


def run(case: Case, base: Path, folder: Path) -> Measured:
    """Train a few steps and measure. ``base`` is what ``make_base`` left."""
    documents = documents_of(case)
    trainer: Any
    if case.by == "trl":
        from benchmarks.gpu_trl import trl_trainer

        trainer, clock = trl_trainer(case, documents, base, folder)
    else:
        trainer, clock = _ours(case, write_packs(documents, folder / "pack", case.window), base, folder)
    if case.compile:
        compile_layers(trainer.model)
    if case.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    outcome = trainer.train()
    lengths = np.diff(documents.offsets)
    return Measured(
        tokens_s=clock.tokens_s,
        peak_bytes=torch.cuda.max_memory_allocated() if case.device == "cuda" else 0,
        loss=float(outcome.training_loss),
        document_length=float((lengths**2).sum() / lengths.sum()),
        trained=sum(weight.numel() for weight in trainer.model.parameters() if weight.requires_grad),
    )


def _ours(case: Case, pack: Pack, base: Path, folder: Path) -> tuple[Any, Clock]:
    """The worker's trainer on the worker's model, without what stands around a step (see ``benchmarks trainer``)."""
    from ft_assets.settings.recipe.training import SettledLora, SettledTraining
    from ft_assets.workers.packs.sampler import Order
    from ft_assets.workers.training.methods.sft import Likelihood
    from ft_assets.workers.training.model import load_base
    from ft_assets.workers.training.reader import StepReader
    from ft_assets.workers.training.trainer import PackedTrainer, trainer_config

    set_attention(case.attention)
    windows = case.micro * case.accumulate
    training = SettledTraining(
        learning_rate=LEARNING_RATE,
        epochs=1000,
        max_steps=case.warm + case.steps,
        global_batch_size=windows,
        micro_batch_size=case.micro,
        precision=case.precision,
        weights=case.weights,
        optimizer="adamw" if case.optimizer == "adamw_unfused" else case.optimizer,
    )
    order = Order(
        windows=len(pack), global_batch=windows, epochs=1000, seed=17, max_steps=training.max_steps, block=pack.block
    )
    args = trainer_config(training, order, folder, case.device, recompute=case.setup.recompute, offload=case.offload)
    if case.optimizer == "adamw_unfused":
        args.optim = "adamw_torch"
    lora = SettledLora(rank=RANK, alpha=ALPHA, dropout=0.0) if case.variant != "full" else None
    model = load_base(base, training, full=case.variant == "full", four_bit=case.variant == "qlora", device=case.device)
    trainer = PackedTrainer(
        reader=StepReader(pack, order, case.micro),
        objective=Likelihood({}),
        before_update=lambda step, loss, grad_norm: None,
        model=model,
        args=args,
        lora=lora,
        muon=case.optimizer == "muon",
        rounded=case.weights == "bfloat16",
    )
    if case.sync == "error":
        trainer.add_callback(Waits(case.warm, trainer))
    clock = Clock(case, lambda: trainer.last.tokens)
    trainer.add_callback(clock)
    return trainer, clock


def main() -> None:
    case, base = Case(**json.loads(sys.argv[1])), Path(sys.argv[2])
    if not (base / "config.json").exists():
        make_base(case, base)
    with tempfile.TemporaryDirectory(prefix="ft-benchmark-") as folder:
        try:
            found: dict[str, Any] = asdict(run(case, base, Path(folder)))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            found = {"out_of_memory": True}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
