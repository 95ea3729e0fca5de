"""Resolve a recipe: replace every ``auto``, in a fixed order, and record each value's origin."""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import BaseModel

from ft_assets.control.auto import rules
from ft_assets.control.auto.compiling import compiling
from ft_assets.control.auto.fitting import Fit, best_fit, expected_memory
from ft_assets.control.auto.parts import smallest_gpu
from ft_assets.control.auto.rules import Choice
from ft_assets.settings.recipe.hardware import HardwareSettings
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.recipe.sweep import SweepSettings
from ft_assets.settings.recipe.training import LoraSettings, PackingSettings, TrainingSettings
from ft_assets.workers.model_size.known import Known

Rule = Callable[[Recipe, Known | None], Choice | None]

RULES: tuple[tuple[str, Rule], ...] = (
    ("hardware.device", rules.device),
    ("training.precision", rules.precision),
    ("training.learning_rate", rules.learning_rate),
    ("lora.rank", rules.rank),
    ("lora.alpha", rules.alpha),
    ("training.epochs", rules.epochs),
    ("training.global_batch_size", rules.global_batch_size),
)
"""In order: some rules use the results of earlier ones. Seven more settings are resolved together: see ``best_fit``."""

_TOGETHER = (
    "training.weights",
    "training.optimizer",
    "hardware.sharding",
    "training.recompute",
    "training.recompute_every",
    "training.offload",
    "training.micro_batch_size",
)
_COMPILE, _GPU_TYPE = "training.compile", "hardware.gpu_type"
_WINDOW = "packing.max_length"
_PENDING = "auto: resolved per dataset, from its size, the base and the GPUs"


@dataclass(frozen=True, kw_only=True, slots=True)
class Configuration:
    """A recipe for one pair, and the origin of each setting by dotted path.

    Origins are ``recipe``, ``default`` or ``auto: <why this value>``. ``memory_bytes`` is the expected memory of a
    device; None if the base is unknown. ``larger_gpu_type``: the whole GPU, if ``recipe`` is for a part of it.
    """

    recipe: Recipe
    origins: dict[str, str]
    memory_bytes: int | None = None
    larger_gpu_type: str | None = None


def configure(recipe: Recipe, known: Known | None) -> Configuration:
    """``recipe`` with every ``auto`` resolved; without a pair (``known`` is None), those that need one stay.

    Deterministic and idempotent.
    """
    origins, whole = origins_of(recipe), recipe.hardware.gpu_type
    if origins[_WINDOW] == "default" and recipe.packing.max_length < PackingSettings().max_length:
        origins[_WINDOW] = "auto: the context length of the base"
    for path, rule in RULES:
        if _get(recipe, path) == "auto":
            recipe = _settle(recipe, origins, path, rule(recipe, known))
    if known is not None:
        if recipe.hardware.parts:
            recipe = _settle(recipe, origins, _GPU_TYPE, smallest_gpu(recipe, known))
        fit = best_fit(recipe, known)
        for path, choice in _fitted(recipe, known, fit):
            if _get(recipe, path) == "auto":
                recipe = _settle(recipe, origins, path, choice)
        if recipe.training.compile == "auto":
            recipe = _settle(recipe, origins, _COMPILE, compiling(recipe, known))
    else:
        for path in (*_TOGETHER, _COMPILE):
            # A later setting that is left out has no entry.
            if _get(recipe, path) == "auto" and path in origins:
                origins[path] = _PENDING
    return Configuration(
        recipe=recipe,
        origins=origins,
        memory_bytes=expected_memory(recipe, known),
        larger_gpu_type=None if recipe.hardware.gpu_type == whole else whole,
    )


def origins_of(model: BaseModel, prefix: str = "") -> dict[str, str]:
    """Origin of each setting by dotted path: written by the author (``recipe``) or left at its ``default``."""
    found: dict[str, str] = {}
    for name in type(model).model_fields:
        value, field = getattr(model, name), type(model).model_fields[name]
        if field.exclude_if is not None and field.exclude_if(value):
            continue
        # A sweep is one entry: the settings it varies belong to its trials.
        if isinstance(value, BaseModel) and not isinstance(value, SweepSettings):
            found |= origins_of(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = "recipe" if name in model.model_fields_set else "default"
    return found


def _fitted(recipe: Recipe, known: Known, fit: Fit) -> list[tuple[str, Choice]]:
    gpus, takes = recipe.hardware.all_gpus, f": {fit.why}" if fit.why else ""
    smaller = f"a higher precision might not fit{takes}"
    weights = Choice(fit.weights, smaller if fit.weights == "bfloat16" else f"float32 is the most exact{takes}")
    optimizer = Choice(fit.optimizer, smaller if fit.optimizer == "adamw_8bit" else f"adamw is the most exact{takes}")
    if gpus < 2:
        sharding = Choice("none", "no sharding with one GPU" if gpus else "no sharding on a CPU")
    else:
        sharding = Choice(fit.sharding, f"{fit.sharding} over {gpus} GPUs{takes}")
    if fit.why:
        reason = "without it the training might not fit; with it, it takes" if fit.recompute else "not needed:"
        recompute = Choice("on" if fit.recompute else "off", f"{reason} {fit.why}")
    else:
        unknown = "the base is unknown" if gpus else "memory is not estimated on a CPU"
        recompute = Choice("on" if fit.recompute else "off", unknown)
    layers = f"1 of {fit.recompute} layers{takes}" if fit.recompute > 1 else f"all layers{takes}"
    every = Choice(fit.recompute or 1, layers if fit.recompute else "not used: nothing is recomputed")
    slower = f"a faster setting might not fit{takes}"
    offload = Choice("on", slower) if fit.offload else Choice("off", "not needed")
    tokens = fit.micro * recipe.packing.max_length
    sharing = f" of {recipe.hardware.context_parallel} GPUs" if recipe.hardware.context_parallel > 1 else ""
    micro = Choice(fit.micro, f"{fit.micro} windows are up to {tokens:,} tokens a forward pass{sharing}{takes}")
    return list(zip(_TOGETHER, (weights, optimizer, sharding, recompute, every, offload, micro), strict=True))


def _settle(recipe: Recipe, origins: dict[str, str], path: str, choice: Choice | None) -> Recipe:
    if choice is None:
        origins[path] = _PENDING
        return recipe
    origins[path] = f"auto: {choice.why}"
    section, name = path.split(".")
    settings: LoraSettings | TrainingSettings | HardwareSettings = getattr(recipe, section)
    return recipe.model_copy(update={section: settings.model_copy(update={name: choice.value})})


def _get(recipe: Recipe, path: str) -> object:
    section, name = path.split(".")
    return getattr(getattr(recipe, section), name)
