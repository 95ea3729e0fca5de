"""What a training would take, from what is in the store: exact where the pack is there, rough and labelled else."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

from ft_assets import identity
from ft_assets.checkpoints.configuration.combinations import require_possible
from ft_assets.checkpoints.configuration.configure import configure
from ft_assets.checkpoints.configuration.fitting import fit_of, memory_setup
from ft_assets.checkpoints.configuration.known import Known
from ft_assets.checkpoints.configuration.settled import SettledTraining
from ft_assets.checkpoints.configuration.shown import shown_settings
from ft_assets.checkpoints.methods import METHODS
from ft_assets.checkpoints.sampler import Order
from ft_assets.identity import raw_dataset, require_fitting
from ft_assets.keys import DatasetKey, check_pair
from ft_assets.packs.estimate.bounds import Bounds
from ft_assets.packs.estimate.hardware import Hardware, find_hardware, unknown_hardware
from ft_assets.packs.estimate.memory import Memory
from ft_assets.packs.estimate.predict import Fits, predict
from ft_assets.packs.estimate.time import Work
from ft_assets.recipes.judging import require_judges_of_pair
from ft_assets.recipes.load import load_recipe
from ft_assets.recipes.models import Recipe
from ft_assets.recipes.register import get_recipe
from ft_assets.submissions.known_base import KnownBase, base_of_file, base_of_recipe
from ft_assets.submissions.past_rates import past_rates
from ft_assets.submissions.token_sizes import Sizes, token_sizes
from ft_assets.sweeps.expand import expand, trial_recipes
from ft_assets.sweeps.totals import total
from ft_assets.tenants import TenantsFile, load_tenants
from ft_resources.artifacts import Artifacts
from ft_resources.errors import BadRecipe, HeldForReview, MissingInput

Trial = TypeVar("Trial")


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Sizes of one training; each ``…_from`` says in words what its numbers stand on.

    Args:
        tokens: over the whole run; windows and tokens_per_epoch are of one epoch.
        seconds: of training alone; None where nothing is known of the speed.
        memory: bytes at the peak, of one GPU or of the process on a CPU; ``memory_parts`` are bytes as expected.
        gpu_memory: bytes that the recipe's GPU has; None on a CPU and for an unknown type.
        fits: whether the peak fits it.
        gpu_hours: from the worker's start to its end, times the GPUs; 0 on a CPU, None where unknown.
        settings: (path, value, origin) of each setting of the training, settled from what is known now.
        trials: trainings that all this is for, more than one of a sweep.
        price: in ``currency``; None where GPU-hours or the type's price are unknown.
    """

    tokens_per_epoch: int
    windows: int
    steps_per_epoch: int
    steps: int
    tokens: int
    tokens_from: str
    seconds: float | None
    seconds_from: str
    memory: Bounds | None
    memory_parts: dict[str, int]
    memory_from: str
    gpu_memory: int | None
    fits: Fits | None
    gpu_hours: Bounds | None
    gpu_hours_from: str
    price: Bounds | None
    currency: str
    price_from: str
    settings: list[tuple[str, str, str]]
    trials: int = 1


def estimate_training(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> Estimate:
    """The estimate for a pair. Raises UserError for keys that were never added, and for a senseless pair."""
    stored = get_recipe(artifacts.store, recipe_key)
    if stored.trials:
        keys = [trial.key for trial in stored.trials]
        return _sweep(lambda key: estimate_training(artifacts, dataset_key, key), keys)
    return _estimate(artifacts, dataset_key, stored.recipe, base_of_recipe(artifacts, recipe_key), recipe_key)


def estimate_file(artifacts: Artifacts, dataset_key: str, path: Path) -> Estimate:
    """The same for a recipe file that is not registered. Raises BadRecipe and BadBase for what is wrong with it."""
    recipe = load_recipe(path)
    check_pair(DatasetKey.parse(dataset_key), recipe.recipe_key)
    base = base_of_file(recipe, path)
    trials = trial_recipes(recipe, expand(recipe, str(path)), str(path))
    if trials:
        return _sweep(lambda trial: _estimate(artifacts, dataset_key, trial, base, ""), trials)
    return _estimate(artifacts, dataset_key, recipe, base, "")


def _sweep(estimate: Callable[[Trial], Estimate], trials: Iterable[Trial]) -> Estimate:
    """The trials' estimates together, without those that cannot work here. Raises BadRecipe where none can."""
    found: list[Estimate] = []
    refused: BadRecipe | None = None
    for trial in trials:
        try:
            found.append(estimate(trial))
        except BadRecipe as error:
            refused = error
    if refused is not None and not found:
        raise refused
    return total(found)


def _estimate(artifacts: Artifacts, dataset_key: str, recipe: Recipe, base: KnownBase, recipe_key: str) -> Estimate:
    require_fitting(artifacts, dataset_key, recipe)
    if recipe.evaluation.judge is not None:
        require_judges_of_pair(artifacts.store, recipe, raw_dataset(artifacts, dataset_key))
    sizes = token_sizes(artifacts, dataset_key, recipe, base, recipe_key)
    known = _known(sizes, base)
    settled = configure(recipe, known)
    recipe = settled.recipe
    require_possible(recipe, known, recipe.key)
    order = _order(recipe, sizes)
    tokens = round(sizes.tokens * order.steps / order.steps_per_epoch)
    hardware = find_hardware(recipe.hardware.gpu_type) if recipe.hardware.gpus and recipe.hardware.gpu_type else None
    past = past_rates(artifacts, dataset_key, recipe, base, sizes)
    setup = memory_setup(recipe, known, fit_of(recipe))
    every = recipe.training.validate_every_steps
    scored = _scored_tokens(artifacts, dataset_key, recipe, recipe_key, sizes)
    found = predict(
        base.architecture,
        setup,
        Work(
            tokens=tokens,
            steps=order.steps,
            learned=sizes.learned.expected,
            document_length=sizes.document_length,
            validation_tokens=sizes.validation_tokens * (1 + (order.steps // every if every else 0)),
        ),
        hardware,
        rates=past.rates,
        converted=past.converted,
        weight_bytes=base.weight_bytes,
        scored_tokens=scored,
    )
    if past.rates:
        seconds_from = f"{past.source}, at {median(past.rates):,.0f} tokens/s"
    elif found.seconds:
        seconds_from = (
            f"arithmetic at the usual share of the peak of {setup.gpus} x {hardware.name if hardware else ''}"
        )
    else:
        seconds_from = past.source
    price, currency, price_from = _price(found.gpu_hours, hardware, recipe, load_tenants())
    return Estimate(
        tokens_per_epoch=sizes.tokens,
        windows=sizes.windows,
        steps_per_epoch=order.steps_per_epoch,
        steps=order.steps,
        tokens=tokens,
        tokens_from=sizes.source,
        seconds=found.seconds.expected if found.seconds else None,
        seconds_from=seconds_from,
        memory=found.memory.total if found.memory else None,
        memory_parts=_parts(found.memory),
        memory_from=base.source,
        gpu_memory=hardware.memory_bytes if hardware else None,
        fits=found.fits,
        gpu_hours=found.gpu_hours,
        gpu_hours_from=_gpu_hours_from(recipe, found.gpu_hours, base, scored),
        price=price,
        currency=currency,
        price_from=price_from,
        settings=shown_settings(settled.recipe, settled.origins),
    )


def _known(sizes: Sizes, base: KnownBase) -> Known:
    return Known(
        model=base.architecture,
        examples=sizes.examples,
        windows=sizes.windows,
        tokens=sizes.tokens,
        learned=sizes.learned,
        counted=sizes.counted,
    )


def _order(recipe: Recipe, sizes: Sizes) -> Order:
    training = SettledTraining.model_validate(recipe.training.model_dump())
    return Order(
        windows=sizes.windows,
        global_batch=training.global_batch_size,
        epochs=training.epochs,
        seed=training.seed,
        max_steps=training.max_steps,
    )


def _parts(memory: Memory | None) -> dict[str, int]:
    if memory is None:
        return {}
    names = ("weights", "gradients", "optimizer", "activations", "overhead")
    return {name: round(getattr(memory, name)) for name in names}


def _gpu_hours_from(recipe: Recipe, gpu_hours: Bounds | None, base: KnownBase, scored: int) -> str:
    hardware = recipe.hardware
    if hardware.gpus == 0:
        return "a training on the CPU takes none"
    if gpu_hours:
        gpus = f"{hardware.all_gpus} GPU" + ("s" if hardware.all_gpus > 1 else "")
        where = f"{gpus} of {hardware.nodes} nodes" if hardware.nodes > 1 else gpus
        before = "; before it one GPU scores the reference" if scored else ""
        return f"time to train and to start, on {where}{before}"
    if hardware.gpu_type is None:
        return "hardware.gpu_type names no GPU type, and without one neither speed nor memory is known"
    if find_hardware(hardware.gpu_type) is None:
        return f"the GPU type {hardware.gpu_type!r} is unknown; {unknown_hardware(hardware.gpu_type)}"
    return f"too little is known of the base ({base.source})"


def _scored_tokens(artifacts: Artifacts, dataset_key: str, recipe: Recipe, recipe_key: str, sizes: Sizes) -> int:
    """Tokens of both splits that the base is asked about before a training that compares with it; 0 once it was."""
    if not METHODS[recipe.method].compares:
        return 0
    # Only a pair whose pack was counted can have been scored.
    if recipe_key and sizes.counted:
        with suppress(MissingInput, HeldForReview):
            identity.reference_logps(artifacts, dataset_key, recipe_key)
            return 0
    return sizes.tokens + sizes.validation_tokens


def _price(
    gpu_hours: Bounds | None, hardware: Hardware | None, recipe: Recipe, tenants: TenantsFile
) -> tuple[Bounds | None, str, str]:
    """The price with its currency, and what it stands on."""
    if recipe.hardware.gpus == 0 or gpu_hours is None:
        return None, tenants.currency, "GPU-hours, of which there are none" if gpu_hours else "unknown GPU-hours"
    if hardware is None:
        return None, tenants.currency, "the GPU type is unknown"
    each = tenants.price_of(hardware)
    if each is None:
        hint = f"set one in tenants.yaml: gpu_prices: {{{hardware.name}: …}}"
        return None, tenants.currency, f"no price is set for {hardware.name}; {hint}"
    return gpu_hours.times(each), tenants.currency, f"{each:,.2f} {tenants.currency} an hour of one {hardware.name}"
