"""Estimate a training from the store: exact if the pack exists, otherwise rough and labelled as such."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import TypeVar

from ft_assets.control import identity
from ft_assets.control.auto.combinations import require_possible
from ft_assets.control.auto.configure import configure
from ft_assets.control.auto.fitting import fit_of, memory_setup
from ft_assets.control.identity import raw_dataset, require_fitting
from ft_assets.control.planning.estimated import Estimate, total
from ft_assets.control.planning.exports import estimate_exports
from ft_assets.control.planning.known_base import KnownBase, base_of_file, base_of_recipe
from ft_assets.control.planning.past_rates import past_rates
from ft_assets.control.planning.predict import predict
from ft_assets.control.planning.token_sizes import Sizes, token_sizes
from ft_assets.control.recipes.load import load_recipe
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.recipes.trials import expand, trial_recipes
from ft_assets.control.recipes.window import within_context
from ft_assets.control.registry.check_judges import require_judges_of_pair
from ft_assets.settings.bounds import Bounds
from ft_assets.settings.catalogue.composites import parsed
from ft_assets.settings.catalogue.families import has_experts, how_documents_run, packed_by_kernels, why_apart
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.gpus import Hardware, find_hardware, unknown_hardware
from ft_assets.settings.keys import DatasetKey, check_pair
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.recipe.shown import shown_settings
from ft_assets.settings.recipe.training import VALIDATIONS, SettledTraining
from ft_assets.settings.tenants import TenantsFile
from ft_assets.workers.model_size.host import host_needs
from ft_assets.workers.model_size.known import Known, score_bytes
from ft_assets.workers.model_size.memory import Memory, Setup
from ft_assets.workers.model_size.time import Work, any_gpu_seconds, cpu_seconds
from ft_assets.workers.packs.sampler import Order
from ft_resources.artifacts import Artifacts
from ft_resources.errors import BadRecipe, HeldForReview, MissingInput

Trial = TypeVar("Trial")
_CORES = os.cpu_count() or 1


def estimate_training(artifacts: Artifacts, tenants: TenantsFile, dataset_key: str, recipe_key: str) -> Estimate:
    """The estimate for a pair. Raises UserError for unknown keys and for an invalid pair."""
    stored = get_recipe(artifacts.store, recipe_key)
    if stored.trials:
        keys = [trial.key for trial in stored.trials]
        return _sweep(lambda key: estimate_training(artifacts, tenants, dataset_key, key), keys)
    base = base_of_recipe(artifacts, recipe_key)
    return _estimate(artifacts, tenants, dataset_key, stored.recipe, base, recipe_key)


def estimate_file(artifacts: Artifacts, tenants: TenantsFile, dataset_key: str, path: Path) -> Estimate:
    """The same for a recipe file that is not registered. Raises BadRecipe and BadBase for an invalid one."""
    recipe = load_recipe(path)
    check_pair(DatasetKey.parse(dataset_key), recipe.recipe_key)
    base = base_of_file(recipe, path)
    recipe = within_context(recipe, base.context, str(path))
    trials = trial_recipes(recipe, expand(recipe, str(path)), str(path))
    if trials:
        return _sweep(lambda trial: _estimate(artifacts, tenants, dataset_key, trial, base, ""), trials)
    return _estimate(artifacts, tenants, dataset_key, recipe, base, "")


def _sweep(estimate: Callable[[Trial], Estimate], trials: Iterable[Trial]) -> Estimate:
    """The combined estimate of the trials that can work here. Raises BadRecipe if none can."""
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


def _estimate(
    artifacts: Artifacts, tenants: TenantsFile, dataset_key: str, recipe: Recipe, base: KnownBase, recipe_key: str
) -> Estimate:
    require_fitting(artifacts, dataset_key, recipe)
    if recipe.evaluation.judge is not None:
        require_judges_of_pair(artifacts.store, tenants, recipe, raw_dataset(artifacts, dataset_key))
    sizes = token_sizes(artifacts, dataset_key, recipe, base, recipe_key)
    known = _known(sizes, base)
    settled = configure(recipe, known)
    recipe = settled.recipe
    require_possible(recipe, known, recipe.key)
    order = _order(recipe, sizes)
    tokens = round(sizes.tokens * order.steps / order.steps_per_epoch)
    hardware = (
        find_hardware(recipe.hardware.gpu_type) if recipe.hardware.most_gpus and recipe.hardware.gpu_type else None
    )
    past = past_rates(artifacts, dataset_key, recipe, base, sizes)
    setup = memory_setup(recipe, known, fit_of(recipe))
    host = base.architecture and host_needs(
        base.architecture, setup, processes=max(1, recipe.hardware.most_gpus), kept=recipe.training.keep_best or 0
    )
    early = recipe.training.early_stopping
    every = recipe.training.validate_every_steps or (-(-order.steps // VALIDATIONS) if early else None)
    scored = _scored_tokens(artifacts, dataset_key, recipe, recipe_key, sizes)
    work = Work(
        tokens=tokens,
        steps=order.steps,
        learned=sizes.learned.expected,
        document_length=sizes.document_length,
        validation_tokens=sizes.validation_tokens * (1 + (order.steps // every if every else 0)),
    )
    rough = None
    found = predict(
        base.architecture,
        setup,
        work,
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
    elif rough := _rough_seconds(base, setup, work):
        device = f"{_CORES} CPU cores, as this machine has" if not setup.gpus else "GPUs from B200 to T4"
        seconds_from = f"arithmetic for {device}; {past.source}"
    else:
        seconds_from = past.source
    price, currency, price_from = _price(found.gpu_hours, hardware, recipe, tenants)
    return Estimate(
        tokens_per_epoch=sizes.tokens,
        windows=sizes.windows,
        steps_per_epoch=order.steps_per_epoch,
        steps=order.steps,
        tokens=tokens,
        tokens_from=sizes.source,
        seconds=found.seconds.expected if found.seconds else None,
        seconds_from=seconds_from,
        rough_seconds=rough,
        memory=found.memory.total if found.memory else None,
        memory_parts=_parts(found.memory),
        memory_from=base.source,
        gpu_type=recipe.hardware.gpu_type,
        gpu_memory=hardware.memory_bytes if hardware else None,
        fits=found.fits,
        gpu_hours=found.gpu_hours,
        gpu_hours_from=_gpu_hours_from(recipe, found.gpu_hours, base, scored),
        price=price,
        currency=currency,
        price_from=price_from,
        counted=sizes.counted,
        documents=_documents(recipe, base),
        host_memory=host.memory if host else None,
        scratch=host.disk if host else None,
        settings=shown_settings(settled.recipe, settled.origins),
        at_most=early is not None,
        exports=estimate_exports(artifacts, dataset_key, recipe, base),
    )


def _documents(recipe: Recipe, base: KnownBase) -> tuple[str, str]:
    if recipe.packing.mode == "apart":
        return "apart", "set in the recipe"
    return how_documents_run(base.file("config.json"), gpus=recipe.hardware.most_gpus)


def _rough_seconds(base: KnownBase, setup: Setup, work: Work) -> Bounds | None:
    """Seconds of a training on this machine's CPU, or on a GPU of any type; None if the base is not known."""
    if base.architecture is None:
        return None
    if setup.gpus:
        return any_gpu_seconds(base.architecture, setup, work)
    return cpu_seconds(base.architecture, setup, work, _CORES)


def _known(sizes: Sizes, base: KnownBase) -> Known:
    return Known(
        model=base.architecture,
        examples=sizes.examples,
        windows=sizes.windows,
        tokens=sizes.tokens,
        learned=sizes.learned,
        counted=sizes.counted,
        apart=why_apart(base.file("config.json")),
        kernels=packed_by_kernels(base.file("config.json")),
        scores=score_bytes(base.file("config.json")),
        experts=has_experts(parsed(base.file("config.json"))),
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
    if hardware.most_gpus == 0:
        return "a training on the CPU takes no GPU-hours"
    if gpu_hours:
        known = find_hardware(hardware.gpu_type or "")
        gpus = f"{hardware.all_gpus} GPU" + ("s" if hardware.all_gpus > 1 else "")
        if known and known.part_of:
            gpus = f"a part that counts as {known.share:.2g} of a GPU"
        where = f"{gpus} of {hardware.nodes} nodes" if hardware.nodes > 1 else gpus
        if hardware.elastic:
            where += "; about the same on fewer GPUs, which take longer"
        before = "; before that, one GPU scores the reference" if scored else ""
        return f"time to start and train, on {where}{before}"
    if hardware.gpu_type is None:
        return "hardware.gpu_type is not set, so speed and memory are unknown"
    if find_hardware(hardware.gpu_type) is None:
        return f"the GPU type {hardware.gpu_type!r} is unknown; {unknown_hardware(hardware.gpu_type)}"
    return f"too little is known about the base ({base.source})"


def _scored_tokens(artifacts: Artifacts, dataset_key: str, recipe: Recipe, recipe_key: str, sizes: Sizes) -> int:
    """Tokens of both splits that the base must score before a training that compares with it; 0 once it has."""
    if not METHODS[recipe.method].compares:
        return 0
    # Only a pair with a token pack can have been scored.
    if recipe_key and sizes.counted:
        with suppress(MissingInput, HeldForReview):
            identity.reference_logps(artifacts, dataset_key, recipe_key)
            return 0
    return sizes.tokens + sizes.validation_tokens


def _price(
    gpu_hours: Bounds | None, hardware: Hardware | None, recipe: Recipe, tenants: TenantsFile
) -> tuple[Bounds | None, str, str]:
    """The price with its currency, and its source."""
    if recipe.hardware.most_gpus == 0 or gpu_hours is None:
        return None, tenants.currency, "GPU-hours, which are unknown" if gpu_hours else "unknown GPU-hours"
    if hardware is None:
        return None, tenants.currency, "the GPU type is unknown"
    each = tenants.price_of(hardware)
    if each is None:
        hint = f"set one in tenants.yaml: gpu_prices: {{{hardware.name}: …}}"
        return None, tenants.currency, f"no price is set for {hardware.name}; {hint}"
    source = f"{each:,.2f} {tenants.currency} per hour of one {hardware.name}"
    return gpu_hours.times(each / hardware.share), tenants.currency, source
