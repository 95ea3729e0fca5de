"""Where ``training.precision: fp8`` does not work, or is slower than bf16."""

from ft_assets.control.auto.combination import Combination
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.model_size.known import Known, gpu_of


def _on_cpu(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.precision != "fp8" or recipe.hardware.device != "cpu":
        return ""
    return "a CPU does not multiply 8-bit floats, and only imitating their rounding is slower than fp32"


def _older_gpu(recipe: Recipe, known: Known | None) -> str:
    gpu, named = gpu_of(recipe.hardware)
    if recipe.training.precision != "fp8" or gpu is None or not named or gpu.fp8:
        return ""
    return f"{gpu.name} does not multiply 8-bit floats"


def _four_bit(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.precision != "fp8" or recipe.variant != "qlora":
        return ""
    return "a base in 4 bits is unpacked to bf16 for each product, and would be rounded a second time"


def _divided(recipe: Recipe, known: Known | None) -> str:
    sharding = recipe.hardware.sharding
    if recipe.training.precision != "fp8" or sharding in ("auto", "none"):
        return ""
    return f"fp8 puts layers of its own in place of the base's, whose weights {sharding} divides"


def _compared(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.precision != "fp8" or not METHODS[recipe.method].compares:
        return ""
    return (
        f"{recipe.method} compares with log-probabilities that are computed once, in layers that are not compiled, and "
        "8 bits turn the other order of sums into other numbers"
    )


def _uncompiled(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.precision != "fp8" or recipe.training.compile != "off":
        return ""
    return "in layers that are not compiled, casting to 8 bits takes longer than it saves, and compile is off"


FLOAT8: tuple[Combination, ...] = (
    Combination(where="training.precision", found=_on_cpu, instead="Use precision fp32, bf16 or auto."),
    Combination(
        where="training.precision",
        found=_older_gpu,
        instead="Use precision bf16 or auto, or a GPU of compute capability 8.9 and above, such as L40S or H100.",
    ),
    Combination(where="training.precision", found=_four_bit, instead="Use precision bf16, or variant lora."),
    Combination(
        where="training.precision",
        found=_compared,
        instead="Use precision bf16, or a method without a reference: sft, cpt, orpo or simpo.",
    ),
    Combination(where="training.precision", found=_divided, instead="Use sharding none, or precision bf16."),
    Combination(
        where="training.precision",
        found=_uncompiled,
        instead="Use precision bf16, or compile on; auto does not compile every base.",
    ),
)
