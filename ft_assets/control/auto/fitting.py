"""Micro-batch, recomputation and sharding: what the memory model says fits, with as little overhead as possible."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from ft_assets.checkpoints.configuration.known import Known, documents_of, gpu_of
from ft_assets.packs.estimate.hardware import GIB
from ft_assets.packs.estimate.memory import Setup, Shards, peak_memory
from ft_assets.recipes.models import Recipe

# More tokens in a forward pass no longer make its matrix products faster; a CPU is busy with fewer.
_GPU_TOKENS, _CPU_TOKENS = 16_384, 4_096


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """One way to hold a training, and why: ``why`` is a sentence about memory, ``""`` where it plays no part."""

    sharding: Shards
    recompute: bool
    micro: int
    why: str = ""


def best_fit(recipe: Recipe, known: Known) -> Fit:
    """The first of all ways that surely fits, else the one that takes least.

    In order of cost: recomputation comes last, as it repeats a forward pass in every step; then sharding, by what it
    has to send; then small micro-batches.
    """
    ways = list(_ways(recipe))
    gpu, named = gpu_of(recipe.hardware)
    if gpu is None or known.model is None:
        return ways[0]
    room, model = gpu.memory_bytes, known.model
    peaks = [peak_memory(model, memory_setup(recipe, known, way)).total for way in ways]
    of = f"of the {room / GIB:.1f} GiB of one {gpu.name}{'' if named else ', as no known GPU type is named'}"
    for way, peak in zip(ways, peaks, strict=True):
        if peak.upper <= room:
            return replace(way, why=f"at most {peak.upper / GIB:.1f} {of}")
    way, peak = min(zip(ways, peaks, strict=True), key=lambda both: both[1].expected)
    return replace(way, why=f"about {peak.expected / GIB:.1f} (at most {peak.upper / GIB:.1f}) {of}")


def fit_of(recipe: Recipe) -> Fit:
    """How a settled recipe is held."""
    training = recipe.training
    assert isinstance(training.micro_batch_size, int)
    sharding = recipe.hardware.sharding
    assert sharding != "auto"
    return Fit(sharding=sharding, recompute=training.recompute == "on", micro=training.micro_batch_size)


def expected_memory(recipe: Recipe, known: Known | None) -> int | None:
    """Bytes that a settled recipe is expected to take at its peak, of one GPU or of the process on a CPU; None where
    the pair or its base is not known."""
    if known is None or known.model is None:
        return None
    return round(peak_memory(known.model, memory_setup(recipe, known, fit_of(recipe))).total.expected)


def memory_setup(recipe: Recipe, known: Known, fit: Fit) -> Setup:
    """How the trainer would hold a recipe's model in memory; rank, batch and precision are settled in ``recipe``."""
    training, lora = recipe.training, recipe.lora
    assert isinstance(lora.rank, int)
    assert isinstance(training.global_batch_size, int)
    most = documents_of(recipe) * fit.micro * recipe.packing.max_length
    return Setup(
        variant=recipe.variant,
        # Both 16-bit forms take the same room.
        precision="fp32" if training.precision == "fp32" else "bf16",
        optimizer=training.optimizer,
        tokens=min(most, known.tokens) if known.counted else most,
        learned=known.learned,
        rank=lora.rank if recipe.variant != "full" else 0,
        targets=lora.target_modules if isinstance(lora.target_modules, str) else list(lora.target_modules),
        dropout=lora.dropout > 0,
        accumulates=training.global_batch_size > fit.micro * recipe.hardware.world,
        recompute=fit.recompute,
        gpus=recipe.hardware.all_gpus,
        # Where adapters train, these stages are none (``Layout.zero_stage``).
        shards="none" if recipe.variant != "full" and fit.sharding in ("zero1", "zero2") else fit.sharding,
    )


def _ways(recipe: Recipe) -> Iterator[Fit]:
    """All ways that the recipe leaves open, cheapest first."""
    chosen = recipe.training.recompute
    recomputes = {"auto": (False, True) if recipe.hardware.gpus else (False,), "on": (True,), "off": (False,)}[chosen]
    for recompute, sharding, micro in product(recomputes, _shardings(recipe), _micros(recipe)):
        yield Fit(sharding=sharding, recompute=recompute, micro=micro)


def _shardings(recipe: Recipe) -> Sequence[Shards]:
    chosen = recipe.hardware.sharding
    if chosen != "auto":
        return (chosen,)
    whole = recipe.training.optimizer == "adafactor" or recipe.training.precision == "fp16"
    if recipe.hardware.all_gpus < 2 or recipe.variant == "qlora" or whole:
        return ("none",)
    # Adapters' states are small; only their base is worth dividing.
    return ("none", "zero1", "zero2", "fsdp") if recipe.variant == "full" else ("none", "fsdp")


def _micros(recipe: Recipe) -> list[int]:
    """Divisors of each device's share of the batch, from what keeps the device busy down to 1."""
    training = recipe.training
    if training.micro_batch_size != "auto":
        return [training.micro_batch_size]
    assert isinstance(training.global_batch_size, int)
    share = max(1, training.global_batch_size // recipe.hardware.world)
    busy = _GPU_TOKENS if recipe.hardware.gpus else _CPU_TOKENS
    most = max(1, busy // (documents_of(recipe) * recipe.packing.max_length))
    return [micro for micro in range(min(most, share), 0, -1) if share % micro == 0]
