"""Settings that do not work together, each with the reason and what to write instead.

Checked twice: at registration with the recipe alone, and for a pair with data and base. A setting that is still
``auto`` is never an error: the rules choose none of these combinations.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ft_assets.control.auto.fitting import needs_whole_matrices
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.catalogue.refusal import Refusal
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.recipe.training import KINDS
from ft_assets.workers.model_size.families import FAMILIES
from ft_assets.workers.model_size.known import Known, gpu_of
from ft_resources.errors import BadRecipe
from ft_resources.strict import nearest

# vLLM's largest maximum rank (``evals/vllm_writer.py``).
_VLLM_RANK = 512
_SHAPE = ("lora.rank", "lora.alpha", "lora.target_modules", "lora.use_rslora", "lora.use_dora", "lora.init")


@dataclass(frozen=True, kw_only=True, slots=True)
class Combination:
    """``found`` returns what is wrong with a resolved recipe, or ""; ``instead`` is what to do about it."""

    where: str
    found: Callable[[Recipe, Known | None], str]
    instead: str


def _quantised_shards(recipe: Recipe, known: Known | None) -> str:
    """See https://github.com/huggingface/accelerate/issues/3983; 8-bit under ZeRO-3 gives a wrong loss."""
    if recipe.variant != "qlora" or recipe.hardware.sharding not in ("zero3", "fsdp", "hsdp"):
        return ""
    return (
        f"{recipe.hardware.sharding} splits weights into shards, and a base quantized to 4 or 8 bits cannot be "
        "split: its storage has another number format than training, and its scales belong to whole blocks"
    )


def _whole_moments(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.optimizer == "adamw" or recipe.hardware.sharding in ("auto", "none"):
        return ""
    needs = {
        "adafactor": "adafactor needs the means of whole rows and columns of a matrix",
        "adamw_8bit": "adamw_8bit scales whole blocks of a matrix",
        "muon": "muon turns whole matrices",
    }[recipe.training.optimizer]
    return f"{needs}, and {recipe.hardware.sharding} gives each GPU only a part of them"


def _muon_on_adapters(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.optimizer != "muon" or recipe.variant == "full":
        return ""
    return f"muon makes the steps of whole matrices orthogonal, and a {recipe.variant} adapter trains factors of them"


def _kept_shards(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.keep_best is None or recipe.hardware.sharding in ("auto", "none"):
        return ""
    return f"keep_best writes weights during training, and under {recipe.hardware.sharding} no process has all of them"


def _nothing_to_shard(recipe: Recipe, known: Known | None) -> str:
    sharding, hardware = recipe.hardware.sharding, recipe.hardware
    if sharding == "hsdp" and (hardware.nodes == 1 or hardware.gpus < 2):
        return "hsdp divides weights among the GPUs of each of several nodes"
    if sharding in ("auto", "none") or hardware.world > 1:
        return ""
    has = "a single one" if hardware.gpus else "none"
    return f"{sharding} divides a training among GPUs, and this one has {has}"


def _fp16_shards(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.precision != "fp16" or recipe.hardware.sharding in ("auto", "none"):
        return ""
    return (
        f"fp16 uses one scale for all gradients, and under {recipe.hardware.sharding} each GPU has only a part of them"
    )


def _fp16_on_cpu(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.precision != "fp16" or recipe.hardware.device != "cpu":
        return ""
    return "fp16 with loss scaling is for GPUs; on a CPU it is slower than fp32 and not more exact than bf16"


def _no_bf16(recipe: Recipe, known: Known | None) -> str:
    gpu, named = gpu_of(recipe.hardware)
    if recipe.training.precision != "bf16" or gpu is None or not named or gpu.bf16:
        return ""
    return f"{gpu.name} does not compute in bf16"


def _uneven_batch(recipe: Recipe, known: Known | None) -> str:
    batch, micro, hardware = recipe.training.global_batch_size, recipe.training.micro_batch_size, recipe.hardware
    together = hardware.world * (1 if micro == "auto" else micro)
    if batch == "auto" or batch % together == 0:
        return ""
    between = f"{hardware.world} {'GPUs' if hardware.gpus else 'processes'}"
    on = f" on {hardware.nodes} nodes" if hardware.nodes > 1 else ""
    each = f" with {micro} windows each" if micro != "auto" else ""
    return f"a batch of {batch} windows cannot be divided evenly between {between}{on}{each}"


def _new_rows_without_full(recipe: Recipe, known: Known | None) -> str:
    if not recipe.new_tokens:
        return ""
    if recipe.variant == "full":
        if METHODS[recipe.method].teaches_tokens:
            return ""
        return f"embeddings of new tokens need training on much text, which {recipe.method} is not"
    return (
        f"a {recipe.variant} adapter is served as low-rank updates of its base, by vLLM and others, and has no "
        "embedding rows, so it could not hold those of new tokens"
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


def _kind_without_adapters(recipe: Recipe, known: Known | None) -> str:
    named = [name for name, default in KINDS.items() if getattr(recipe.lora, name) != default]
    if recipe.variant != "full" or not named:
        return ""
    return f"lora.{named[0]} is about adapters, and variant full has none"


def _factored_lora_plus(recipe: Recipe, known: Known | None) -> str:
    if recipe.lora.lora_plus_ratio is None or recipe.training.optimizer != "adafactor":
        return ""
    return "LoRA+ is two rates for AdamW, whose steps are as long as its rate; those of adafactor follow other rules"


def _pissa_on_four_bits(recipe: Recipe, known: Known | None) -> str:
    if recipe.lora.init != "pissa" or recipe.variant != "qlora":
        return ""
    return "pissa begins with the largest parts of the weights, and a base in 4 bits has rounded ones: not those it has"


def _pissa_with_dora(recipe: Recipe, known: Known | None) -> str:
    if recipe.lora.init != "pissa" or not recipe.lora.use_dora:
        return ""
    return "the magnitudes of DoRA belong to one adapter, and what pissa takes out of the base is a second one"


def _pissa_with_dropout(recipe: Recipe, known: Known | None) -> str:
    if recipe.lora.init != "pissa" or not recipe.lora.dropout:
        return ""
    return (
        "the adapters of pissa begin as the largest parts of the weights, and dropout would leave those out at random"
    )


def _kind_in_shards(recipe: Recipe, known: Known | None) -> str:
    sharding, lora = recipe.hardware.sharding, recipe.lora
    if not needs_whole_matrices(recipe) or sharding not in ("zero3", "fsdp", "hsdp"):
        return ""
    kind, what = (
        ("use_dora", "lengths of whole rows") if lora.use_dora else ("init pissa", "singular values of matrices")
    )
    return f"lora.{kind} needs the {what}, and under {sharding} each GPU has only a part of the weights"


def _kind_in_vllm(recipe: Recipe, known: Known | None) -> str:
    rank, lora = recipe.lora.rank, recipe.lora
    if recipe.variant == "full" or recipe.evaluation.engine != "vllm":
        return ""
    if lora.use_dora:
        return "vLLM does not serve adapters of DoRA"
    saved = 0 if rank == "auto" else 2 * rank if lora.init == "pissa" else rank
    return f"vLLM serves ranks up to {_VLLM_RANK}, and this adapter is saved with {saved}" if saved > _VLLM_RANK else ""


def _nothing_to_continue(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.warm_start is None or recipe.variant != "full":
        return ""
    return "warm_start continues an adapter, and variant full has none"


def _two_starts(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.warm_start is None or recipe.lora.init == "default":
        return ""
    return f"an adapter that is continued has its first values already, and init {recipe.lora.init} makes others"


def _swept_shape(recipe: Recipe, known: Known | None) -> str:
    swept = [name for name in (recipe.sweep.parameters if recipe.sweep else ()) if name in _SHAPE]
    if recipe.training.warm_start is None or not swept:
        return ""
    return f"the adapter that warm_start names has one shape, and {swept[0]} is swept"


COMBINATIONS: tuple[Combination, ...] = (
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
        where="training.optimizer",
        found=_muon_on_adapters,
        instead="Use optimizer adamw, or variant full.",
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
        instead="Use a multiple of GPUs times micro_batch_size, or auto.",
    ),
    Combination(
        where="new_tokens",
        found=_new_rows_without_full,
        instead="First train a recipe with method cpt, variant full and new_tokens; then use its adapter as this "
        "recipe's base (artifact:…).",
    ),
    Combination(
        where="variant",
        found=_kind_without_adapters,
        instead="Leave the setting out, or use variant lora.",
    ),
    Combination(
        where="training.warm_start",
        found=_nothing_to_continue,
        instead="Write base: artifact:… in its place, which trains all weights of that adapter's model; or variant "
        "lora or qlora.",
    ),
    Combination(where="lora.init", found=_two_starts, instead="Leave out one of init and training.warm_start."),
    Combination(
        where="sweep.parameters",
        found=_swept_shape,
        instead="Sweep other settings, such as training.learning_rate; or leave training.warm_start out.",
    ),
    Combination(
        where="lora.lora_plus_ratio",
        found=_factored_lora_plus,
        instead="Use optimizer adamw, or leave lora_plus_ratio out.",
    ),
    Combination(
        where="lora.init",
        found=_pissa_on_four_bits,
        instead="Use variant lora, or leave init out.",
    ),
    Combination(
        where="lora.init",
        found=_pissa_with_dora,
        instead="Leave out one of init and use_dora.",
    ),
    Combination(
        where="lora.dropout",
        found=_pissa_with_dropout,
        instead="Leave dropout out, or init.",
    ),
    Combination(
        where="hardware.sharding",
        found=_kind_in_shards,
        instead="Use sharding none or auto, or another kind of adapter.",
    ),
    Combination(
        where="evaluation.engine",
        found=_kind_in_vllm,
        instead="Use engine transformers, or plain adapters of a smaller rank.",
    ),
    Combination(
        where="lora.target_modules",
        found=_unknown_modules,
        instead="Name modules of this base, or use all-linear.",
    ),
)


def require_possible(recipe: Recipe, known: Known | None, where: str = "") -> None:
    """Raise BadRecipe for the first invalid combination in ``recipe``. ``where`` names the file or pair."""
    found: list[tuple[Combination | Refusal, str]] = [(one, one.found(recipe, known)) for one in COMBINATIONS]
    found += [(one, one.found(recipe, recipe.method)) for one in METHODS[recipe.method].all_refusals]
    for one, problem in found:
        if problem:
            raise BadRecipe(problem, where=f"{where}, {one.where}" if where else one.where, remedy=one.instead)
