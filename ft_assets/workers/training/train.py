"""The work of ``checkpoint``: fine-tune a base on a token pack. Heavy libraries are imported once work has begun."""

import json
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.settings.layout import layout_of
from ft_assets.settings.recipe.shown import RECORD, configuration_record
from ft_assets.workers.base_models.tensors import stored_dtype
from ft_assets.workers.libraries import UNUSED, absent, grow_segments, keep_offline, require_device
from ft_assets.workers.packs.format import TRAIN, VALIDATION, CachedFiles, Pack
from ft_assets.workers.packs.sampler import Step
from ft_assets.workers.training.attempt_plan import Plan, make_plan
from ft_assets.workers.training.distributed.launch import run_ranks
from ft_assets.workers.training.distributed.rank_files import RankContext
from ft_assets.workers.training.earlier import CONTINUED_FROM, WARM_START_INPUT
from ft_assets.workers.training.early_stopping import STOPPED_EARLY, stopping_step
from ft_assets.workers.training.journal import NOT_FINITE, Journal
from ft_assets.workers.training.kept_weights import BestWeights, fetch_kept, lowest
from ft_assets.workers.training.memory import memory_explained
from ft_assets.workers.training.methods import make_objective
from ft_assets.workers.training.telemetry.report import telemetry_facts, write_pictures
from ft_resources.errors import BadRecipe, UserError
from ft_resources.worker_context import WorkContext, WorkResult

if TYPE_CHECKING:
    from ft_assets.workers.packs.isolation.choice import Choice
    from ft_assets.workers.training.distributed.sharding import Sharding
    from ft_assets.workers.training.model import Origin
    from ft_assets.workers.training.ranks import Ranks
    from ft_assets.workers.training.trainer import PackedTrainer

_RECENT = 10
"""The final training loss is the mean of this many last steps, as one step's is mostly noise."""


def train(context: WorkContext) -> WorkResult:
    """Train to the end, or raise Preempted after saving; see ``docs/reference/artifacts.md`` for files and facts.

    Raises BadData for a pack without anything to learn, Leak if packed documents influence each other, Diverged,
    OutOfMemory, IncompleteSave. With several processes, this one only starts them.
    """
    layout = layout_of(context.runtime)
    _require_version(context)
    grow_segments(context.runtime["device"])
    if layout.world == 1:
        return _train(context)
    context.progress("reading inputs")
    # Once for all ranks of this node, and so that errors are reported before any is started.
    files = CachedFiles(context.input("pack"), context.cache)
    make_plan(context.params, context.runtime, Pack.open(files, TRAIN), Pack.open(files, VALIDATION))
    for name in {"base", WARM_START_INPUT} & context.spec.inputs.keys():
        context.folder(name)
    return run_ranks(context, layout)


def _require_version(context: WorkContext) -> None:
    """Refuse to begin or continue a run of another version of this code: it would end with other weights."""
    theirs, ours = context.spec.identity["code_version"], CODE_VERSIONS["checkpoint"]
    if theirs != ours:
        raise UserError(
            f"the training is of code version {theirs}, and this worker has version {ours}",
            where="checkpoint",
            remedy="Materialize checkpoint again, or run the worker from the release that requested it.",
        )


def train_as_rank(context: RankContext) -> WorkResult:
    """``train`` in a process that torchrun started; rank 0 returns the files and the facts."""
    from ft_assets.workers.training.distributed.preflight import preflight
    from ft_assets.workers.training.ranks import join

    layout, device = layout_of(context.runtime), context.runtime["device"]
    ranks = join(device, layout.context_parallel, layout.virtual_ranks)
    with context.watching_for_hangs(ranks):
        if layout.nodes > 1:
            context.progress("looking at GPUs and network")
            preflight(ranks, device, context.keep)
        return _train(context, ranks)


def _train(context: WorkContext, ranks: "Ranks | None" = None) -> WorkResult:
    """The whole training, or a rank's part in it."""
    context.progress("reading inputs")
    files = CachedFiles(context.input("pack"), context.cache)
    pack, validation = Pack.open(files, TRAIN), Pack.open(files, VALIDATION)
    plan = make_plan(context.params, context.runtime, pack, validation)
    base_folder = context.folder("base")
    context.progress("loading libraries")
    keep_offline()
    with absent(*_unused(plan, context.runtime)), memory_explained(context.params, context.runtime, plan.micro_windows):
        trainer, journal = _run(context, plan, pack, validation, base_folder, ranks)
        from ft_assets.workers.training.model import save_final

        context.progress("writing")
        model = trainer.model
        state = trainer.sharding.final_weights(model, full=plan.full, kept=ranks is None or ranks.first)
        if ranks is not None and not ranks.first:
            return WorkResult(folder=context.output)
        final = context.output / "final"
        save_final(model, final, _origin(context), full=plan.full, state=state)
    stopped = stopping_step(journal.rows, plan.training.early_stopping, plan.order.steps)
    kept = lowest(journal.rows, plan.training.keep_best or 0, last=stopped or plan.order.steps)
    attempts = [*context.spec.previous, context.spec.attempt]
    journal.kept = fetch_kept(context.store, context.spec.address, attempts, kept, context.output)
    return _result(context, journal, plan, stopped)


def _origin(context: WorkContext) -> "Origin":
    from ft_assets.workers.training.model import Origin

    facts = context.input("base").facts
    return Origin(source=facts["source"], revision=facts.get("revision"), dtype=stored_dtype(context.folder("base")))


def _run(
    context: WorkContext, plan: Plan, pack: Pack, validation: Pack, base_folder: Path, ranks: "Ranks | None"
) -> tuple["PackedTrainer", Journal]:
    """Run the training; returns the trainer and the run's records."""
    began = time.monotonic()
    import torch

    from ft_assets.workers.packs.isolation.choice import choose
    from ft_assets.workers.training.compiled import compile_layers
    from ft_assets.workers.training.model import arithmetic_of, drops_out
    from ft_assets.workers.training.ranks import Ranks
    from ft_assets.workers.training.reader import StepReader
    from ft_assets.workers.training.trainer import PackedTrainer, trainer_config
    from ft_assets.workers.training.training_loop import TrainingLoop

    context.progress("loading model")
    require_device(plan.device)
    # Deterministic algorithms switch it on, and it costs time; nothing here reads uninitialised memory.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    reference, reference_of_validation = _reference(context, plan, pack, validation)
    objective = make_objective(context.params)
    loop = TrainingLoop(context, pack, validation, plan.order, plan.cadence, reference_of_validation)
    loop.early_stopping = plan.training.early_stopping
    if count := plan.training.keep_best:
        loop.best_weights = BestWeights(context, count, full=plan.full, origin=_origin(context))

    def before_update(step: Step, loss: float, grad_norm: float) -> None:
        loop.watch.require_sound(step, loss, grad_norm)
        expected = objective.first_loss(rough=plan.rough)
        if step.number == 1 and expected is not None and not plan.starts_apart and not noisy:
            expected.require(loop.trainer.last_figures)

    sharding = _sharding(context, plan)
    choice = choose(
        base_folder,
        context.params.get("packing", "auto"),
        max_length=pack.index.max_length,
        arithmetic=arithmetic_of(plan.training, full=plan.full, four_bit=plan.variant.four_bit, device=plan.device),
    )
    if layout_of(context.runtime).context_parallel > 1:
        # The recipe is refused for other methods, which compare whole documents: slices cut them.
        assert plan.method.token_mean
        _require_packed(choice)
    loop.journal.isolation = {"mode": choice.mode, "why": choice.why}
    model = _load(plan, sharding, base_folder, choice)
    noisy = drops_out(model)
    ranks = ranks or Ranks(virtual=layout_of(context.runtime).virtual_ranks)
    trainer = PackedTrainer(
        reader=StepReader(pack, plan.order, plan.micro_windows, ranks, reference),
        objective=objective,
        before_update=before_update,
        poll=loop.between_micro_batches,
        sharding=sharding,
        model=model,
        args=trainer_config(
            plan.training,
            plan.order,
            context.scratch,
            plan.device,
            recompute=plan.recompute,
            offload=plan.offload,
        ),
        lora=plan.lora,
        warm_start=context.folder(WARM_START_INPUT) if WARM_START_INPUT in context.spec.inputs else None,
        muon=plan.training.optimizer == "muon",
        rounded=plan.training.weights == "bfloat16",
        callbacks=[loop],
    )
    loop.trainer = trainer
    if plan.compile:
        loop.compiled = compile_layers(trainer.model)
    context.progress("training", done=0, total=plan.order.steps)
    print(f"libraries and model took {time.monotonic() - began:.1f} s", flush=True)
    with loop.accountable(), context.graceful():
        trainer.train()
    return trainer, loop.journal


def _require_packed(choice: "Choice") -> None:
    if choice.mode == "apart" or choice.told:
        why = f"documents of this base run apart ({choice.why})" if choice.mode == "apart" else "its layers mix tokens"
        raise BadRecipe(
            f"{why}, so its tokens cannot be divided among ranks: layers "
            "other than its attention may need the tokens of neighbours",
            where="hardware.context_parallel",
            remedy="Leave context_parallel out, or choose a base whose documents are packed.",
        )


def _sharding(context: WorkContext, plan: Plan) -> "Sharding":
    """How this attempt's ranks hold the model."""
    from ft_assets.workers.training.distributed.sharding import FullyShardedData, Sharding
    from ft_assets.workers.training.distributed.virtual import VirtualRanks
    from ft_assets.workers.training.distributed.zero import Zero

    layout, precision = layout_of(context.runtime), plan.training.precision
    if layout.virtual_ranks:
        return VirtualRanks()
    if stage := layout.zero_stage(adapters=not plan.full):
        return Zero(stage, plan.device, half=plan.variant.weights(precision) == "bf16")
    if layout.shards > 1:
        return FullyShardedData(layout.shards, layout.world // layout.shards, half=precision in ("bf16", "fp8"))
    return Sharding()


def _load(plan: Plan, sharding: "Sharding", base_folder: Path, choice: "Choice") -> Any:
    """The base, or this rank's shard of it."""
    from ft_assets.workers.training.model import load_base, require_targets

    with sharding.loading() as spread:
        model = load_base(
            base_folder,
            plan.training,
            full=plan.full,
            four_bit=plan.variant.four_bit,
            device=plan.device,
            choice=choice,
            spread=spread,
        )
    if plan.lora:
        require_targets(model, plan.lora)
    return model


def _reference(
    context: WorkContext, plan: Plan, pack: Pack, validation: Pack
) -> tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]:
    """The reference's log-probabilities of both splits, for the methods that compare with one."""
    if not plan.method.compares:
        return None, None
    from ft_assets.workers.training.reference import read_reference

    artifact, cache = context.input("reference_logps"), context.scratch / "reference"
    train, other = (read_reference(artifact, cache, each.split, each) for each in (pack, validation))
    return train, other


def _result(context: WorkContext, journal: Journal, plan: Plan, stopped: int | None) -> WorkResult:
    """Write the run's records and the report beside the weights."""
    output = context.output
    (output / "recipe.json").write_text(json.dumps(context.params, indent=2, sort_keys=True) + "\n")
    (output / "ledger.jsonl").write_text("".join(f"{line}\n" for line in journal.ledger))
    report = output / "report"
    report.mkdir()
    (report / "steps.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in journal.rows))
    write_pictures(report, journal, context.spec.label)
    record = configuration_record(context.params, context.runtime, context.spec.label)
    (output / RECORD).write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")
    (report / "isolation.json").write_text(json.dumps(journal.isolation, indent=2, sort_keys=True) + "\n")
    losses = [row["loss"] for row in journal.rows if "loss" in row]
    tokens = sum(row.get("tokens", 0) for row in journal.rows)
    facts = {
        "steps": stopped or plan.order.steps,
        **({STOPPED_EARLY: stopped} if stopped else {}),
        "train_loss": math.fsum(losses[-_RECENT:]) / len(losses[-_RECENT:]),
        "validation_loss": [[row["step"], row["validation_loss"]] for row in journal.rows if "validation_loss" in row],
        "tokens": tokens,
        "seconds": round(journal.seconds, 2),
        "tokens_per_s": round(tokens / journal.seconds, 1),
        "resumed": journal.resumed,
        "isolation": journal.isolation,
        **({"kept": [list(each) for each in journal.kept]} if plan.training.keep_best else {}),
        **({CONTINUED_FROM: named.address} if (named := context.spec.inputs.get(WARM_START_INPUT)) else {}),
        **({NOT_FINITE: journal.not_finite} if journal.not_finite else {}),
        **telemetry_facts(journal),
    }
    return WorkResult(folder=output, facts=facts)


def _unused(plan: Plan, runtime: dict[str, Any]) -> list[str]:
    """Packages that are slow to import and not needed here."""
    needed = {
        "bitsandbytes": plan.variant.four_bit or plan.training.optimizer == "adamw_8bit",
        "deepspeed": layout_of(runtime).zero_stage(adapters=not plan.full) > 0,
        "torchao": plan.training.precision == "fp8",
    }
    return [name for name in UNUSED if not needed[name]]
