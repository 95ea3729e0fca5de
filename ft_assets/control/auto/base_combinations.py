"""Settings that do not work with a pair's base, once it is known."""

from ft_assets.control.auto.combination import Combination
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.model_size.families import FAMILIES
from ft_assets.workers.model_size.float8 import pays_in_float8
from ft_assets.workers.model_size.known import Known
from ft_resources.strict import nearest


def _divided_heads(recipe: Recipe, known: Known | None) -> str:
    model, ranks = known.model if known else None, recipe.hardware.context_parallel
    if model is None or model.rough or model.kv_heads % ranks == 0:
        return ""
    return (
        f"attention heads are divided among {ranks} GPUs, and the base's {model.kv_heads} key/value heads are "
        f"not divisible by {ranks}"
    )


def _too_small_for_float8(recipe: Recipe, known: Known | None) -> str:
    model = known.model if known else None
    if recipe.training.precision != "fp8" or model is None or model.rough:
        return ""
    if any(each.experts == 1 and pays_in_float8(each.inputs, each.outputs) for each in model.linears):
        return ""
    return (
        f"of the matrices in the base's layers, which are {model.hidden:,} and {model.intermediate:,} wide, none is "
        "multiplied faster in 8 bits: they must be large, and multiples of 16"
    )


def _unknown_modules(recipe: Recipe, known: Known | None) -> str:
    targets, model = recipe.lora.target_modules, known.model if known else None
    if recipe.variant == "full" or isinstance(targets, str) or model is None or model.rough:
        return ""
    able = [linear.name.rsplit(".", 1)[-1] for linear in model.linears if linear.adapter_ranks]
    able += FAMILIES[model.model_type].ends
    unknown = [name for name in targets if name.rsplit(".", 1)[-1] not in able]
    if not unknown:
        return ""
    return f"{model.model_type} has no module {unknown[0]!r}; {nearest(unknown[0], sorted(set(able)))}"


def _packed_apart(recipe: Recipe, known: Known | None) -> str:
    if recipe.packing.mode != "packed" or known is None or not known.apart:
        return ""
    if known.kernels and recipe.hardware.most_gpus:
        return ""
    return f"documents of this base cannot share a row, because it has {known.apart}"


def _divided_apart_base(recipe: Recipe, known: Known | None) -> str:
    if recipe.hardware.context_parallel == 1 or known is None or not known.apart:
        return ""
    return f"context_parallel divides the tokens of packed windows, and documents of this base run apart: {known.apart}"


def _adapts_experts(recipe: Recipe, known: Known | None) -> bool:
    return recipe.variant != "full" and recipe.lora.target_modules == "all-linear" and bool(known and known.experts)


def _experts_in_zero3(recipe: Recipe, known: Known | None) -> str:
    """Observed with two ranks: packed documents give the losses of one rank, documents apart other ones."""
    if recipe.hardware.sharding != "zero3" or not _adapts_experts(recipe, known):
        return ""
    return "all-linear reaches the base's experts, and zero3 loses parts of the gradients of their adapters"


def _kind_over_experts(recipe: Recipe, known: Known | None) -> str:
    lora = recipe.lora
    if not _adapts_experts(recipe, known):
        return ""
    asked = {"dropout": lora.dropout > 0, "use_dora": lora.use_dora, "init": lora.init != "default"}
    named = next((name for name, is_asked in asked.items() if is_asked), "")
    return named and f"all-linear reaches the base's experts, and adapters of experts have no {named}"


BASES: tuple[Combination, ...] = (
    Combination(
        where="hardware.context_parallel",
        found=_divided_heads,
        instead="Use a divisor of the base's key/value heads.",
    ),
    Combination(where="packing.mode", found=_packed_apart, instead="Use mode auto or apart."),
    Combination(
        where="hardware.context_parallel",
        found=_divided_apart_base,
        instead="Leave context_parallel out, or choose a base whose documents are packed.",
    ),
    Combination(
        where="hardware.sharding",
        found=_experts_in_zero3,
        instead="Use sharding fsdp, hsdp or auto, or name modules other than the experts, such as [q_proj, v_proj].",
    ),
    Combination(
        where="lora.target_modules",
        found=_kind_over_experts,
        instead="Leave that setting out, or name modules other than the experts, such as [q_proj, v_proj].",
    ),
    Combination(where="training.precision", found=_too_small_for_float8, instead="Use precision bf16."),
    Combination(
        where="lora.target_modules",
        found=_unknown_modules,
        instead="Name modules of this base, or use all-linear.",
    ),
)
