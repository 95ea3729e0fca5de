"""The work of ``checkpoint``: fine-tune a base on a token pack. Heavy libraries are imported once work has begun."""

import json
import math
import time
from pathlib import Path
from typing import Any

from ft_assets.checkpoints.journal import Journal
from ft_assets.checkpoints.libraries import UNUSED, absent, keep_offline
from ft_assets.checkpoints.methods import make_objective
from ft_assets.checkpoints.plan import Plan, make_plan
from ft_assets.checkpoints.plots import loss_curve
from ft_assets.packs.format import TRAIN, VALIDATION, CachedFiles, Pack
from ft_assets.worker import OutOfMemory
from ft_resources.errors import UserError
from ft_resources.worker_context import WorkContext, WorkResult

_RECENT = 10
"""The final training loss is the mean of so many last steps, as one step's is mostly noise."""


def train(context: WorkContext) -> WorkResult:
    """Train to the end, or raise Preempted after saving; see ``docs/plan.md`` for files and facts.

    Raises BadData for a pack without anything to learn, Leak where packed documents change each other, Diverged,
    OutOfMemory, IncompleteSave.
    """
    context.progress("reading inputs")
    base, files = context.input("base"), CachedFiles(context.input("pack"), context.scratch / "packs")
    pack, validation = Pack.open(files, TRAIN), Pack.open(files, VALIDATION)
    plan = make_plan(context.params, context.runtime, pack)
    base_folder = base.folder(context.scratch)
    context.progress("loading libraries")
    keep_offline()
    with absent(*UNUSED):
        model, journal = _run(context, plan, pack, validation, base_folder)
        from ft_assets.checkpoints.model import save_final

        context.progress("writing")
        final = context.output / "final"
        save_final(model, final, source=base.facts["source"], revision=base.facts.get("revision"), full=plan.full)
    return _result(context, journal, plan)


def _run(context: WorkContext, plan: Plan, pack: Pack, validation: Pack, base_folder: Path) -> tuple[Any, Journal]:
    """The trained model and the books of its run."""
    began = time.monotonic()
    import torch

    from ft_assets.checkpoints.conductor import Conductor
    from ft_assets.checkpoints.model import load_base, load_tokenizer, lora_config
    from ft_assets.checkpoints.reader import StepReader
    from ft_assets.checkpoints.trainer import PackedTrainer, trainer_config
    from ft_assets.checkpoints.watch import Watch

    if plan.device == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "this worker has no usable GPU", where="hardware.device", remedy="Run it where one is, or use cpu."
        )
    context.progress("loading model")
    torch.use_deterministic_algorithms(plan.device == "cpu")
    # Comes with the above and costs time; nothing here reads memory that it has not written.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    conductor = Conductor(context, pack, validation, plan.order, plan.cadence)
    trainer = PackedTrainer(
        reader=StepReader(pack, plan.order, plan.micro_windows),
        objective=make_objective(context.params),
        before_update=Watch(pack, plan.order.steps).require_sound,
        model=load_base(base_folder, plan.training, full=plan.full, max_length=pack.max_length),
        args=trainer_config(plan.training, plan.order, context.scratch, plan.device),
        processing_class=load_tokenizer(base_folder),
        peft_config=lora_config(plan.lora) if plan.lora else None,
        callbacks=[conductor],
    )
    conductor.trainer = trainer
    context.progress("training", done=0, total=plan.order.steps)
    print(f"libraries and model took {time.monotonic() - began:.1f} s", flush=True)
    try:
        with context.graceful():
            trainer.train()
    except (RuntimeError, MemoryError) as error:
        if _out_of_memory(error):
            raise _too_large(plan) from error
        raise
    return trainer.model, conductor.journal


def _result(context: WorkContext, journal: Journal, plan: Plan) -> WorkResult:
    """Write the books and the report beside the weights."""
    output = context.output
    (output / "recipe.json").write_text(json.dumps(context.params, indent=2, sort_keys=True) + "\n")
    (output / "ledger.jsonl").write_text("".join(f"{line}\n" for line in journal.ledger))
    report = output / "report"
    report.mkdir()
    (report / "steps.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in journal.rows))
    (report / "loss.png").write_bytes(loss_curve(journal.rows, context.spec.label))
    (report / "isolation.json").write_text(json.dumps(journal.isolation, indent=2, sort_keys=True) + "\n")
    losses = [row["loss"] for row in journal.rows if "loss" in row]
    tokens = sum(row.get("tokens", 0) for row in journal.rows)
    facts = {
        "steps": plan.order.steps,
        "train_loss": math.fsum(losses[-_RECENT:]) / len(losses[-_RECENT:]),
        "validation_loss": [[row["step"], row["validation_loss"]] for row in journal.rows if "validation_loss" in row],
        "tokens": tokens,
        "seconds": round(journal.seconds, 2),
        "tokens_per_s": round(tokens / journal.seconds, 1),
        "resumed": journal.resumed,
        "isolation": journal.isolation,
    }
    return WorkResult(folder=output, facts=facts)


def _out_of_memory(error: BaseException) -> bool:
    text = str(error).lower()
    return type(error).__name__ == "OutOfMemoryError" or isinstance(error, MemoryError) or "allocate memory" in text


def _too_large(plan: Plan) -> OutOfMemory:
    return OutOfMemory(
        f"training with {plan.micro_windows} window(s) in a forward pass does not fit into the {plan.device}'s memory",
        where="training.micro_batch_size",
        remedy="Lower training.micro_batch_size or packing.max_length in a new recipe version, or use larger hardware.",
    )
