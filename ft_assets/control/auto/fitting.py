"""Number format of weights, optimizer, micro-batch, recomputation and sharding: the most exact choice that fits by the
memory model, and of those the cheapest."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from ft_assets.settings.bounds import Bounds
from ft_assets.settings.gpus import GIB
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.model_size.known import Known, documents_of, gpu_of
from ft_assets.workers.model_size.memory import Optimizer, Setup, Shards, TrainedIn, peak_memory

# More tokens in a forward pass do not make its matrix products faster; a CPU is saturated by fewer.
_GPU_TOKENS, _CPU_TOKENS = 16_384, 4_096
_EVERY = (4, 2, 1)

# By how much of an update they keep: rounding at random adds more noise than moments in 8 bits.
_EXACTNESS: tuple[tuple[TrainedIn, Optimizer], ...] = (
    ("float32", "adamw"),
    ("float32", "adamw_8bit"),
    ("bfloat16", "adamw"),
    ("bfloat16", "adamw_8bit"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """One way to fit a training: every ``recompute``-th layer is recomputed, none if 0, and its input is in host memory
    if ``offload``. ``why`` explains it by memory, ``""`` if memory plays no part; ``sure`` if even the upper bound
    fits."""

    weights: TrainedIn
    optimizer: Optimizer
    sharding: Shards
    recompute: int
    offload: bool
    micro: int
    why: str = ""
    sure: bool = False


def best_fit(recipe: Recipe, known: Known) -> Fit:
    """The most exact way that surely fits, of those the cheapest; else the one that needs least memory.

    Costs, highest first: offloading, as the GPU waits for its copies; recomputation, as it repeats a forward pass of
    its layers in every step; then sharding, by its communication; then small micro-batches.
    """
    ways = list(_ways(recipe))
    gpu, named = gpu_of(recipe.hardware)
    if gpu is None or known.model is None:
        return ways[0]
    room, model = gpu.memory_bytes, known.model
    peaks = [peak_memory(model, memory_setup(recipe, known, way)).total for way in ways]
    of = f"of the {room / GIB:.1f} GiB of one {gpu.name}{'' if named else ', because no known GPU type is set'}"
    for way, peak in zip(ways, peaks, strict=True):
        if peak.upper <= room:
            return replace(way, why=f"at most {peak.upper / GIB:.1f} {of}", sure=True)
    way, peak = min(zip(ways, peaks, strict=True), key=lambda both: both[1].expected)
    return replace(way, why=f"about {peak.expected / GIB:.1f} (at most {peak.upper / GIB:.1f}) {of}")


def fit_of(recipe: Recipe) -> Fit:
    """The way that a resolved recipe specifies."""
    training = recipe.training
    assert isinstance(training.micro_batch_size, int)
    sharding = recipe.hardware.sharding
    assert sharding != "auto"
    assert training.weights != "auto"
    assert training.optimizer != "auto"
    return Fit(
        weights=training.weights,
        optimizer=training.optimizer,
        sharding=sharding,
        recompute=recomputed(recipe),
        offload=offloaded(recipe),
        micro=training.micro_batch_size,
    )


def recomputed(recipe: Recipe) -> int:
    """The n of a resolved recipe whose every n-th layer is recomputed; 0 if none is."""
    training = recipe.training
    assert isinstance(training.recompute_every, int)
    return training.recompute_every if training.recompute == "on" else 0


def offloaded(recipe: Recipe) -> bool:
    """Whether a resolved recipe holds the inputs of its recomputed layers in host memory."""
    return recipe.training.offload == "on" and recomputed(recipe) > 0


def expected_memory(recipe: Recipe, known: Known | None) -> int | None:
    """Expected peak memory of a resolved recipe in bytes, of one GPU or of the process on a CPU; None if the pair or
    its base is not known."""
    if known is None or known.model is None:
        return None
    return round(peak_memory(known.model, memory_setup(recipe, known, fit_of(recipe))).total.expected)


def memory_setup(recipe: Recipe, known: Known, fit: Fit) -> Setup:
    """How the trainer would hold a recipe's model in memory; rank, batch and precision must be resolved."""
    training, lora = recipe.training, recipe.lora
    assert isinstance(lora.rank, int)
    assert isinstance(training.global_batch_size, int)
    most = documents_of(recipe) * fit.micro * recipe.packing.max_length
    tokens = min(most, known.tokens) if known.counted else most
    return Setup(
        variant=recipe.variant,
        # Both 16-bit formats take the same space. So does fp8: what it casts for a product is gone after it.
        precision="fp32" if training.precision == "fp32" else "bf16",
        weights=fit.weights,
        optimizer=fit.optimizer,
        tokens=-(-tokens // recipe.hardware.context_parallel),
        learned=known.learned,
        rank=lora.rank if recipe.variant != "full" else 0,
        targets=lora.target_modules if isinstance(lora.target_modules, str) else list(lora.target_modules),
        dropout=lora.dropout > 0,
        dora=lora.use_dora,
        pissa=lora.init == "pissa",
        accumulates=training.global_batch_size > fit.micro * recipe.hardware.readers,
        recompute=fit.recompute,
        offload=fit.offload,
        scores=_scores(recipe, known, tokens),
        gpus=recipe.hardware.most_gpus if fit.sharding == "hsdp" else recipe.hardware.all_gpus,
        # For adapters these stages shard nothing (``Layout.zero_stage``).
        shards="none" if recipe.variant != "full" and fit.sharding in ("zero1", "zero2") else fit.sharding,
    )


def _scores(recipe: Recipe, known: Known, tokens: int) -> Bounds:
    """Bytes of one layer's attention scores in a forward pass of ``tokens``, for a base that changes them.

    Packed documents compute theirs one after the other; documents apart those of all rows at once. On a GPU whether a
    fused function does it without them is tried when it trains.
    """
    longest = min(recipe.packing.max_length, tokens)
    usual = min(longest, max(1, known.tokens // known.examples)) if known.examples else longest
    rows = tokens if recipe.packing.mode == "apart" or recipe.hardware.most_gpus else longest
    found = Bounds(lower=usual * usual, expected=rows * usual, upper=rows * longest)
    if recipe.hardware.most_gpus and recipe.packing.mode == "auto":
        found = Bounds(lower=0.0, expected=0.0, upper=found.upper)
    return found.times(known.scores / recipe.hardware.context_parallel)


def _ways(recipe: Recipe) -> Iterator[Fit]:
    """All ways that the recipe allows, the most exact first, and of those the cheapest."""
    every = recipe.training.recompute_every
    some = _EVERY if every == "auto" else (every,)
    chosen: dict[str, Sequence[int]] = {
        "auto": (0, *some) if recipe.hardware.most_gpus else (0,),
        "on": some[-1:],
        "off": (0,),
    }
    offload = recipe.training.offload
    kept = [(each, offload == "on" and each > 0) for each in chosen[recipe.training.recompute]]
    if offload == "auto" and recipe.hardware.most_gpus and kept[-1][0]:
        kept.append((kept[-1][0], True))
    for weights, optimizer in _exact(recipe):
        ways = product(kept, _shardings(recipe, weights, optimizer), _micros(recipe))
        for (recompute, offloads), sharding, micro in ways:
            yield Fit(
                weights=weights,
                optimizer=optimizer,
                sharding=sharding,
                recompute=recompute,
                offload=offloads,
                micro=micro,
            )


def _exact(recipe: Recipe) -> list[tuple[TrainedIn, Optimizer]]:
    """Weights and optimizer that the recipe allows, the most exact first."""
    training, sharding = recipe.training, recipe.hardware.sharding
    held: tuple[TrainedIn, ...] = ("float32",)
    if training.weights != "auto":
        held = (training.weights,)
    elif recipe.variant == "full" and training.precision in ("bf16", "fp8") and not sharding.startswith("zero"):
        held = ("float32", "bfloat16")
    # For these two, weights in bfloat16 are refused (``combinations.py``).
    if training.optimizer in ("adafactor", "muon"):
        return [(held[0], training.optimizer)]
    able: tuple[Optimizer, ...] = ("adamw",)
    if training.optimizer != "auto":
        able = (training.optimizer,)
    elif sharding in ("auto", "none"):
        able = ("adamw", "adamw_8bit")
    return [(weights, optimizer) for weights, optimizer in _EXACTNESS if weights in held and optimizer in able]


def needs_whole_matrices(recipe: Recipe) -> bool:
    """Whether the adapters are of a kind that is computed from whole matrices of the base."""
    return recipe.variant != "full" and (recipe.lora.use_dora or recipe.lora.init == "pissa")


def _shardings(recipe: Recipe, weights: TrainedIn, optimizer: Optimizer) -> Sequence[Shards]:
    chosen = recipe.hardware.sharding
    if chosen != "auto":
        return (chosen,)
    whole = optimizer != "adamw" or recipe.training.precision in ("fp16", "fp8")
    if (
        recipe.hardware.all_gpus < 2
        or recipe.hardware.elastic
        or recipe.variant == "qlora"
        or whole
        or needs_whole_matrices(recipe)
    ):
        return ("none",)
    # Adapters' optimizer states are small; only their base is worth sharding. DeepSpeed does not know compiled layers.
    zero = recipe.variant == "full" and weights == "float32" and recipe.training.compile != "on"
    divided: Sequence[Shards] = ("none", "zero1", "zero2") if zero else ("none",)
    # Weights are gathered for each layer: within a node that is faster than between nodes.
    within: Sequence[Shards] = ("hsdp",) if recipe.hardware.nodes > 1 and recipe.hardware.most_gpus > 1 else ()
    return (*divided, *within, "fsdp")


def _micros(recipe: Recipe) -> list[int]:
    """Divisors of the batch's share of a device, from the size that saturates the device down to 1.

    Devices that share their windows count as one.
    """
    training = recipe.training
    if training.micro_batch_size != "auto":
        return [training.micro_batch_size]
    assert isinstance(training.global_batch_size, int)
    share = max(1, training.global_batch_size // recipe.hardware.readers)
    busy = (_GPU_TOKENS if recipe.hardware.most_gpus else _CPU_TOKENS) * recipe.hardware.context_parallel
    most = max(1, busy // (documents_of(recipe) * recipe.packing.max_length))
    return [micro for micro in range(min(most, share), 0, -1) if share % micro == 0]
