"""Combinations of optimizer, precision, batch and GPUs that do not work: how a training computes."""

from ft_assets.control.auto.combination import Combination
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.model_size.known import Known, gpu_of


def _quantised_shards(recipe: Recipe, known: Known | None) -> str:
    """See https://github.com/huggingface/accelerate/issues/3983; 8-bit under ZeRO-3 gives a wrong loss."""
    if recipe.variant != "qlora" or recipe.hardware.sharding not in ("zero3", "fsdp", "hsdp"):
        return ""
    return (
        f"{recipe.hardware.sharding} splits weights into shards, and a base quantized to 4 or 8 bits cannot be "
        "split: its storage has another number format than training, and its scales belong to whole blocks"
    )


def _whole_moments(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.optimizer in ("auto", "adamw") or recipe.hardware.sharding in ("auto", "none"):
        return ""
    needs = {
        "adafactor": "adafactor needs the means of whole rows and columns of a matrix",
        "adamw_8bit": "adamw_8bit scales whole blocks of a matrix",
        "muon": "muon orthogonalises whole matrices",
    }[recipe.training.optimizer]
    return f"{needs}, and {recipe.hardware.sharding} gives each GPU only a part of them"


def _bfloat16_adapters(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.weights != "bfloat16" or recipe.variant == "full":
        return ""
    return f"the trained weights of {recipe.variant} are small, so bfloat16 would only reduce precision"


def _bfloat16_precision(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.weights != "bfloat16" or recipe.training.precision in ("auto", "bf16", "fp8"):
        return ""
    return f"weights in bfloat16 require precision bf16; the precision is {recipe.training.precision}"


def _bfloat16_optimizer(recipe: Recipe, known: Known | None) -> str:
    optimizer = recipe.training.optimizer
    if recipe.training.weights != "bfloat16" or optimizer not in ("adafactor", "muon"):
        return ""
    return f"{optimizer} rounds its updates to the nearest number, and in bfloat16 small ones vanish"


def _bfloat16_zero(recipe: Recipe, known: Known | None) -> str:
    sharding = recipe.hardware.sharding
    if recipe.training.weights != "bfloat16" or not sharding.startswith("zero"):
        return ""
    return f"{sharding} updates float32 copies of its own, so weights in bfloat16 would save little"


def _muon_on_adapters(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.optimizer != "muon" or recipe.variant == "full":
        return ""
    return f"muon makes the steps of whole matrices orthogonal, and a {recipe.variant} adapter trains factors of them"


def _compiled_shards(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.compile != "on" or not recipe.hardware.sharding.startswith("zero"):
        return ""
    return f"{recipe.hardware.sharding} hooks into modules inside the layers, where a compiled layer has none"


def _offloaded_to_itself(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.offload != "on" or recipe.hardware.device != "cpu":
        return ""
    return "offload moves activations from a GPU to host memory, and this training has no GPU"


def _kept_shards(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.keep_best is None or recipe.hardware.sharding in ("auto", "none"):
        return ""
    return f"keep_best saves weights during training, and with {recipe.hardware.sharding} no process has all of them"


def _nothing_to_shard(recipe: Recipe, known: Known | None) -> str:
    sharding, hardware = recipe.hardware.sharding, recipe.hardware
    if sharding == "hsdp" and (hardware.nodes == 1 or hardware.most_gpus < 2):
        return "hsdp divides weights among the GPUs of each of several nodes"
    if sharding in ("auto", "none") or hardware.world > 1:
        return ""
    has = "a single one" if hardware.gpus else "none"
    return f"{sharding} shards a training over GPUs; this one has {has}"


def _fp16_shards(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.precision != "fp16" or recipe.hardware.sharding in ("auto", "none"):
        return ""
    return (
        f"fp16 uses one scale for all gradients, and under {recipe.hardware.sharding} each GPU has only a part of them"
    )


def _fp16_on_cpu(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.precision != "fp16" or recipe.hardware.device != "cpu":
        return ""
    return "fp16 with loss scaling is for GPUs; on a CPU it is slower than fp32 and no more precise than bf16"


def _no_bf16(recipe: Recipe, known: Known | None) -> str:
    gpu, named = gpu_of(recipe.hardware)
    if recipe.training.precision != "bf16" or gpu is None or not named or gpu.bf16:
        return ""
    return f"{gpu.name} does not support bf16"


def _uneven_batch(recipe: Recipe, known: Known | None) -> str:
    batch, micro, hardware = recipe.training.global_batch_size, recipe.training.micro_batch_size, recipe.hardware
    together = hardware.readers * (1 if micro == "auto" else micro)
    if batch == "auto" or batch % together == 0:
        return ""
    groups = f"groups of {hardware.context_parallel} GPUs" if hardware.context_parallel > 1 else ""
    between = f"{hardware.readers} {groups or ('GPUs' if hardware.gpus else 'processes')}"
    on = f" on {hardware.nodes} nodes" if hardware.nodes > 1 else ""
    each = f" with {micro} windows each" if micro != "auto" else ""
    return f"a batch of {batch} windows cannot be divided evenly between {between}{on}{each}"


def _divided_documents(recipe: Recipe, known: Known | None) -> str:
    if recipe.hardware.context_parallel == 1 or METHODS[recipe.method].token_mean:
        return ""
    return (
        f"context_parallel gives each GPU a part of a window's tokens, and {recipe.method} compares whole answers, "
        "whose tokens would be on several GPUs"
    )


def _divided_compiled(recipe: Recipe, known: Known | None) -> str:
    if recipe.hardware.context_parallel == 1 or recipe.training.compile != "on":
        return ""
    return "GPUs that share their windows exchange tokens for heads inside each layer, which is not compiled"


def _elastic_whole_models(recipe: Recipe, known: Known | None) -> str:
    if not recipe.hardware.elastic or recipe.variant != "full":
        return ""
    return "the gradients of all weights would be held and exchanged several times, and those of adapters are small"


def _elastic_shards(recipe: Recipe, known: Known | None) -> str:
    hardware = recipe.hardware
    if not hardware.elastic or (hardware.sharding in ("auto", "none") and hardware.context_parallel == 1):
        return ""
    divides = "context_parallel" if hardware.context_parallel > 1 else hardware.sharding
    return f"{divides} shards a model over a fixed number of GPUs, but gpus is a range"


def _divided_apart(recipe: Recipe, known: Known | None) -> str:
    if recipe.hardware.context_parallel == 1 or recipe.packing.mode != "apart":
        return ""
    return "context_parallel divides the tokens of packed windows, and packing.mode is apart"


HARDWARE: tuple[Combination, ...] = (
    Combination(
        where="hardware.gpus",
        found=_elastic_whole_models,
        instead="Set a fixed number of GPUs, or use variant lora or qlora.",
    ),
    Combination(
        where="hardware.gpus",
        found=_elastic_shards,
        instead="Set a fixed number of GPUs, or use sharding none and context_parallel 1.",
    ),
    Combination(
        where="hardware.sharding",
        found=_quantised_shards,
        instead="Use sharding none, zero1 or zero2, as a 4-bit base is small; or variant lora.",
    ),
    Combination(
        where="training.optimizer",
        found=_whole_moments,
        instead="Use optimizer adamw, whose states can be divided, or sharding none.",
    ),
    Combination(
        where="training.weights",
        found=_bfloat16_adapters,
        instead="Leave weights out, or use variant full.",
    ),
    Combination(
        where="training.weights",
        found=_bfloat16_precision,
        instead="Use precision bf16, or weights float32 or auto.",
    ),
    Combination(
        where="training.weights",
        found=_bfloat16_optimizer,
        instead="Use optimizer adamw, adamw_8bit or auto, or weights float32.",
    ),
    Combination(
        where="training.weights",
        found=_bfloat16_zero,
        instead="Use sharding none, fsdp, hsdp or auto, or weights float32.",
    ),
    Combination(
        where="training.optimizer",
        found=_muon_on_adapters,
        instead="Use optimizer adamw, or variant full.",
    ),
    Combination(
        where="training.compile",
        found=_compiled_shards,
        instead="Use sharding none, fsdp or hsdp, or leave compile out.",
    ),
    Combination(
        where="training.offload",
        found=_offloaded_to_itself,
        instead="Leave offload out, or train on a GPU.",
    ),
    Combination(
        where="training.keep_best",
        found=_kept_shards,
        instead="Leave keep_best out, or use sharding none.",
    ),
    Combination(
        where="hardware.sharding",
        found=_nothing_to_shard,
        instead="Use sharding none or auto, or at least two GPUs.",
    ),
    Combination(
        where="training.precision",
        found=_fp16_shards,
        instead="Use sharding none, or precision fp32, or GPUs with bf16.",
    ),
    Combination(where="training.precision", found=_fp16_on_cpu, instead="Use precision fp32, bf16 or auto."),
    Combination(where="training.precision", found=_no_bf16, instead="Use precision fp16 or auto, or a newer GPU."),
    Combination(
        where="training.global_batch_size",
        found=_uneven_batch,
        instead="Use a multiple of GPUs times micro_batch_size, or auto; hardware.context_parallel GPUs count as one.",
    ),
    Combination(
        where="hardware.context_parallel",
        found=_divided_documents,
        instead="Leave context_parallel out, and lower packing.max_length if a pair does not fit; or use method sft or "
        "cpt.",
    ),
    Combination(
        where="training.compile",
        found=_divided_compiled,
        instead="Remove either compile or hardware.context_parallel.",
    ),
    Combination(
        where="hardware.context_parallel",
        found=_divided_apart,
        instead="Remove either context_parallel or packing.mode.",
    ),
)
