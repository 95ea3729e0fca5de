"""The rules for ``auto``: one function per setting, given a recipe in which earlier settings are resolved.

A rule returns None if it needs the pair and does not have it. The numbers are published starting points, not the best
for any data; a sweep finds those.
"""

from dataclasses import dataclass
from typing import Any

from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.model_size.known import Known, gpu_of

# An adapter starts at zero after a small matrix and needs about ten times the rate of full training, whatever the
# method ("LoRA Learns Less and Forgets Less", https://arxiv.org/abs/2405.09673, 2e-4; QLoRA,
# https://arxiv.org/abs/2305.14314, 2e-4; Zephyr's DPO with QLoRA, 5e-6).
_ADAPTER_FACTOR = 10

# QLoRA (section 4): the rank matters little once all linear layers have adapters. Large bases get a higher rank.
_RANK, _LARGE_RANK, _LARGE_BASE = 16, 32, 30_000_000_000
# Under rsLoRA alpha does not follow the rank (https://arxiv.org/abs/2312.03732): 8 / sqrt(16) is the usual scale of 2.
_RSLORA_ALPHA = 8

_MANY_EXAMPLES, _FEW_EPOCHS = 10_000, 3

# The critical batch size grows with the data (https://arxiv.org/abs/2410.21676), so that an epoch has about a
# thousand steps, within the usual sizes, and at least ten steps for little data.
_SMALLEST_BATCH, _LARGEST_BATCH = 64, 256
_USUAL_STEPS, _FEWEST_STEPS = 1000, 10
# Methods that compare with a reference take steps a fortieth as large: ten leave it where it was. Their estimates
# compare the answers of a step, so two of them are the least.
_FEWEST_COMPARING, _SMALLEST_COMPARING = 50, 2


@dataclass(frozen=True, slots=True)
class Choice:
    """A setting's value and the reason for it, as the end of a sentence that begins with ``auto:``."""

    value: Any
    why: str


def device(recipe: Recipe, known: Known | None) -> Choice:
    found = "cuda" if recipe.hardware.most_gpus else "cpu"
    return Choice(found, f"{found} for {recipe.hardware.most_gpus} GPUs")


def precision(recipe: Recipe, known: Known | None) -> Choice:
    """Needs the device. GPUs before Ampere have no bf16; on a CPU bf16 is emulated or slower than fp32."""
    gpu, named = gpu_of(recipe.hardware)
    if recipe.hardware.device == "cpu" or gpu is None:
        return Choice("fp32", "fp32 on cpu")
    if named and not gpu.bf16:
        return Choice("fp16", f"fp16 with loss scaling, as {gpu.name} has no bf16")
    return Choice("bf16", "bf16 on cuda")


def learning_rate(recipe: Recipe, known: Known | None) -> Choice:
    method = METHODS[recipe.method]
    rate = method.full_rate
    if recipe.variant != "full":
        # Rounded, so that ten times 5e-7 is written and hashed as 5e-06.
        rate = float(f"{rate * _ADAPTER_FACTOR:.1e}")
    return Choice(rate, f"usual for {recipe.method} with {recipe.variant}{method.rate_why}")


def rank(recipe: Recipe, known: Known | None) -> Choice | None:
    if recipe.variant == "full":
        return Choice(_RANK, "not used by full training")
    if known is None:
        return None
    if known.model is None:
        return Choice(_RANK, f"{_RANK}, because the size of the base is unknown")
    count = known.model.parameters
    size = f"a base of {count / 1e9:.2g} billion parameters" if count >= 1e8 else f"a base of {count:,} parameters"
    if count >= _LARGE_BASE:
        return Choice(_LARGE_RANK, f"{_LARGE_RANK} for {size} (30 billion and more)")
    return Choice(_RANK, f"{_RANK} for {size} (fewer than 30 billion)")


def alpha(recipe: Recipe, known: Known | None) -> Choice | None:
    """Needs the rank."""
    if recipe.lora.rank == "auto":
        return None
    if recipe.lora.use_rslora:
        why = f"{_RSLORA_ALPHA} for any rank, equivalent to the usual scale at rank {_RANK}"
        return Choice(_RSLORA_ALPHA, why)
    return Choice(2 * recipe.lora.rank, f"twice the rank of {recipe.lora.rank}")


def epochs(recipe: Recipe, known: Known | None) -> Choice | None:
    """Three passes over little data, as for Alpaca and QLoRA; one over much."""
    if (usual := METHODS[recipe.method].epochs) is not None:
        return Choice(*usual)
    if known is None:
        return None
    if not known.examples:
        return Choice(1, "the number of examples is unknown so far")
    if known.examples > _MANY_EXAMPLES:
        return Choice(1, f"one epoch for {known.said}{known.examples:,} examples (above {_MANY_EXAMPLES:,})")
    return Choice(_FEW_EPOCHS, f"{known.said}{known.examples:,} examples are no more than {_MANY_EXAMPLES:,}")


def global_batch_size(recipe: Recipe, known: Known | None) -> Choice | None:
    """A power of two, rounded up to a multiple of one pass over all devices (``auto`` micro-batches count as 1)."""
    if known is None:
        return None
    windows = f"{known.said}{known.windows:,} windows per epoch"
    usual = min(_LARGEST_BATCH, max(_SMALLEST_BATCH, _power(known.windows // _USUAL_STEPS)))
    fewest, least = (_FEWEST_COMPARING, _SMALLEST_COMPARING) if METHODS[recipe.method].compares else (_FEWEST_STEPS, 1)
    few = max(least, _power(known.windows // fewest))
    size, why = usual, f"{usual} for {windows}"
    if few < usual:
        size, why = few, f"{few} for {windows}: {usual} would give fewer than {fewest} steps"
    micro = recipe.training.micro_batch_size
    together = recipe.hardware.readers * (1 if micro == "auto" else micro)
    if size % together:
        size = -(-size // together) * together
        why += f"; {size} is a multiple of {together}, which one pass takes"
    return Choice(size, why)


def _power(number: int) -> int:
    """The largest power of two that is at most ``number``, and at least 1."""
    return 1 << max(0, number.bit_length() - 1)
