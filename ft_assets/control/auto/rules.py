"""What ``auto`` becomes, one setting a function, from a recipe in which the settings before it are settled.

A rule returns None where it has to know the pair and does not. The numbers are starting points that worked for others,
not the best for any data; a sweep finds those.
"""

from dataclasses import dataclass
from typing import Any

from ft_assets.checkpoints.configuration.known import Known, gpu_of
from ft_assets.recipes.models import Recipe

# Full: 2e-5 as in Llama 2 (https://arxiv.org/abs/2307.09288, section 3.1) and Alpaca. DPO is held to a reference and
# overshoots: 5e-7 as in Zephyr (https://arxiv.org/abs/2310.16944) and Tulu 3 (https://arxiv.org/abs/2411.15124). ORPO
# has no reference and learns the answers too, so between the two: 5e-6, with which Mistral-ORPO was trained.
_FULL_RATES = {"sft": 2e-5, "cpt": 2e-5, "dpo": 5e-7, "orpo": 5e-6}
# An adapter starts at zero behind a small matrix and wants about ten times the rate of full training, whatever the
# method ("LoRA Learns Less and Forgets Less", https://arxiv.org/abs/2405.09673, 2e-4; QLoRA,
# https://arxiv.org/abs/2305.14314, 2e-4; Zephyr's DPO with QLoRA, 5e-6).
_ADAPTER_FACTOR = 10
_RATE_REASONS = {
    "sft": "",
    "cpt": "",
    "dpo": "; dpo takes smaller steps, as it leaves its reference soon",
    "orpo": "; orpo takes smaller steps than sft, as it also moves away from answers",
}

# QLoRA (section 4) found the rank to matter little once all linear layers have adapters; large bases get more room.
_RANK, _LARGE_RANK, _LARGE_BASE = 16, 32, 30_000_000_000

_MANY_EXAMPLES, _FEW_EPOCHS = 10_000, 3

# The batch that still speeds up learning grows with the data (https://arxiv.org/abs/2410.21676), so that an epoch has
# about a thousand steps, within the usual sizes; and never fewer than ten where the data are few.
_SMALLEST_BATCH, _LARGEST_BATCH = 64, 256
_USUAL_STEPS, _FEWEST_STEPS = 1000, 10


@dataclass(frozen=True, slots=True)
class Choice:
    """A setting's value and why it is this one, as the end of a sentence that begins with ``auto:``."""

    value: Any
    why: str


def device(recipe: Recipe, known: Known | None) -> Choice:
    found = "cuda" if recipe.hardware.gpus else "cpu"
    return Choice(found, f"{found} for {recipe.hardware.gpus} GPUs")


def precision(recipe: Recipe, known: Known | None) -> Choice:
    """Needs the device. GPUs before Ampere have no bf16; on a CPU it is emulated or slower than fp32."""
    gpu, named = gpu_of(recipe.hardware)
    if recipe.hardware.device == "cpu" or gpu is None:
        return Choice("fp32", "fp32 on cpu")
    if named and not gpu.bf16:
        return Choice("fp16", f"fp16 with loss scaling, as {gpu.name} has no bf16")
    return Choice("bf16", "bf16 on cuda")


def learning_rate(recipe: Recipe, known: Known | None) -> Choice:
    rate = _FULL_RATES[recipe.method]
    if recipe.variant != "full":
        # Rounded, so that ten times 5e-7 is written 5e-06 and hashed as such.
        rate = float(f"{rate * _ADAPTER_FACTOR:.1e}")
    return Choice(rate, f"usual for {recipe.method} with {recipe.variant}{_RATE_REASONS[recipe.method]}")


def rank(recipe: Recipe, known: Known | None) -> Choice | None:
    if recipe.variant == "full":
        return Choice(_RANK, "not used by full training")
    if known is None:
        return None
    if known.model is None:
        return Choice(_RANK, f"{_RANK}, as the size of the base is not known")
    size = f"a base of {known.model.parameters / 1e9:.2g} billion parameters"
    if known.model.parameters >= _LARGE_BASE:
        return Choice(_LARGE_RANK, f"{_LARGE_RANK} for {size} (30 and more)")
    return Choice(_RANK, f"{_RANK} for {size} (fewer than 30)")


def alpha(recipe: Recipe, known: Known | None) -> Choice | None:
    """Needs the rank."""
    if recipe.lora.rank == "auto":
        return None
    return Choice(2 * recipe.lora.rank, f"twice the rank of {recipe.lora.rank}")


def epochs(recipe: Recipe, known: Known | None) -> Choice | None:
    """Three passes over little data, as Alpaca and QLoRA took; one over much."""
    if recipe.method == "cpt":
        return Choice(1, "text is read once")
    if recipe.method == "dpo":
        return Choice(1, "dpo begins to overfit in a second epoch (Zephyr, https://arxiv.org/abs/2310.16944)")
    if known is None:
        return None
    if not known.examples:
        return Choice(1, "the number of examples is not known yet")
    if known.examples > _MANY_EXAMPLES:
        return Choice(1, f"one epoch for {known.said}{known.examples:,} examples (above {_MANY_EXAMPLES:,})")
    return Choice(_FEW_EPOCHS, f"{known.said}{known.examples:,} examples are no more than {_MANY_EXAMPLES:,}")


def global_batch_size(recipe: Recipe, known: Known | None) -> Choice | None:
    """A power of two, then up to the next multiple of what one pass of all devices takes, where that is written."""
    if known is None:
        return None
    windows = f"{known.said}{known.windows:,} windows an epoch"
    usual = min(_LARGEST_BATCH, max(_SMALLEST_BATCH, _power(known.windows // _USUAL_STEPS)))
    few = _power(known.windows // _FEWEST_STEPS)
    size, why = usual, f"{usual} for {windows}"
    if few < usual:
        size, why = few, f"{few} for {windows}: {usual} would make fewer than {_FEWEST_STEPS} steps"
    micro = recipe.training.micro_batch_size
    together = recipe.hardware.world * (1 if micro == "auto" else micro)
    if size % together:
        size = -(-size // together) * together
        why += f"; {size} is a multiple of {together}, which one pass takes"
    return Choice(size, why)


def _power(number: int) -> int:
    """The largest power of two that is at most ``number``, and at least 1."""
    return 1 << max(0, number.bit_length() - 1)
