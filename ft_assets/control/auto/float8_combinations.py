"""Where ``training.precision: fp8`` does not work, or is slower than bf16."""

from collections.abc import Callable

from ft_assets.control.auto.combination import Combination
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.model_size.known import Known, gpu_of


def _on_cpu(recipe: Recipe) -> str:
    if recipe.hardware.device != "cpu":
        return ""
    return "a CPU cannot multiply 8-bit floats, and emulation is slower than fp32"


def _older_gpu(recipe: Recipe) -> str:
    gpu, named = gpu_of(recipe.hardware)
    return "" if gpu is None or not named or gpu.fp8 else f"{gpu.name} cannot multiply 8-bit floats"


def _four_bit(recipe: Recipe) -> str:
    if recipe.variant != "qlora":
        return ""
    return "a base in 4 bits is unpacked to bf16 for each product, and would be rounded a second time"


def _divided(recipe: Recipe) -> str:
    sharding = recipe.hardware.sharding
    return "" if sharding in ("auto", "none") else f"fp8 replaces the base's layers, whose weights {sharding} divides"


def _compared(recipe: Recipe) -> str:
    if not METHODS[recipe.method].compares:
        return ""
    return (
        f"{recipe.method} compares with log-probabilities that are computed once, in layers that are not compiled, and "
        "in 8 bits another order of sums gives other numbers"
    )


def _uncompiled(recipe: Recipe) -> str:
    if recipe.training.compile != "off":
        return ""
    return "in layers that are not compiled, casting to 8 bits takes longer than it saves, and compile is off"


def _float8(found: Callable[[Recipe], str], instead: str) -> Combination:
    def of_fp8(recipe: Recipe, known: Known | None) -> str:
        return found(recipe) if recipe.training.precision == "fp8" else ""

    return Combination(where="training.precision", found=of_fp8, instead=instead)


FLOAT8: tuple[Combination, ...] = (
    _float8(_on_cpu, "Use precision fp32, bf16 or auto."),
    _float8(
        _older_gpu,
        "Use precision bf16 or auto, or a GPU of compute capability 8.9 and above, such as L40S or H100.",
    ),
    _float8(_four_bit, "Use precision bf16, or variant lora."),
    _float8(_compared, "Use precision bf16, or a method without a reference: sft, cpt, orpo or simpo."),
    _float8(_divided, "Use sharding none, or precision bf16."),
    _float8(_uncompiled, "Use precision bf16, or compile on; auto does not compile every base."),
)
