"""Combinations of variant, adapters, new tokens and bases that do not work: what a training changes."""

from ft_assets.control.auto.combination import Combination
from ft_assets.control.auto.fitting import needs_whole_matrices
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.recipe.training import KINDS
from ft_assets.workers.model_size.known import Known

# vLLM's largest maximum rank (``evals/vllm_writer.py``).
_VLLM_RANK = 512
_SHAPE = ("lora.rank", "lora.alpha", "lora.target_modules", "lora.use_rslora", "lora.use_dora", "lora.init")


def _new_rows_without_full(recipe: Recipe, known: Known | None) -> str:
    if not recipe.new_tokens:
        return ""
    if recipe.variant == "full":
        if METHODS[recipe.method].teaches_tokens:
            return ""
        return (
            f"embeddings of new tokens require training on large amounts of text, which {recipe.method} does not "
            "provide"
        )
    return (
        f"a {recipe.variant} adapter is served as low-rank updates of its base, by vLLM and others, and has no "
        "embedding rows, so it could not hold those of new tokens"
    )


def _kind_without_adapters(recipe: Recipe, known: Known | None) -> str:
    named = [name for name, default in KINDS.items() if getattr(recipe.lora, name) != default]
    if recipe.variant != "full" or not named:
        return ""
    return f"lora.{named[0]} applies to adapters, and variant full has none"


def _factored_lora_plus(recipe: Recipe, known: Known | None) -> str:
    if recipe.lora.lora_plus_ratio is None or recipe.training.optimizer != "adafactor":
        return ""
    return (
        "LoRA+ sets two learning rates for AdamW, whose steps scale with the rate; adafactor scales its steps by "
        "other rules"
    )


def _pissa_on_four_bits(recipe: Recipe, known: Known | None) -> str:
    if recipe.lora.init != "pissa" or recipe.variant != "qlora":
        return ""
    return "pissa needs the singular values of exact weights, and a 4-bit base has only quantized ones"


def _pissa_with_dora(recipe: Recipe, known: Known | None) -> str:
    if recipe.lora.init != "pissa" or not recipe.lora.use_dora:
        return ""
    return "DoRA needs the magnitudes of a single adapter, and pissa adds a second one"


def _pissa_with_dropout(recipe: Recipe, known: Known | None) -> str:
    if recipe.lora.init != "pissa" or not recipe.lora.dropout:
        return ""
    return "pissa adapters start as the largest components of the weights, which dropout would remove at random"


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
    return f"a continued adapter already has its initial values, which init {recipe.lora.init} would replace"


def _swept_shape(recipe: Recipe, known: Known | None) -> str:
    swept = [name for name in (recipe.sweep.parameters if recipe.sweep else ()) if name in _SHAPE]
    if recipe.training.warm_start is None or not swept:
        return ""
    return f"the adapter in warm_start has a fixed shape, so {swept[0]} cannot be swept"


ADAPTERS: tuple[Combination, ...] = (
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
        instead="Use base: artifact:… instead, which trains all weights of that adapter's model; or variant lora or "
        "qlora.",
    ),
    Combination(where="lora.init", found=_two_starts, instead="Remove either init or training.warm_start."),
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
        instead="Remove either init or use_dora.",
    ),
    Combination(
        where="lora.dropout",
        found=_pissa_with_dropout,
        instead="Remove dropout or init.",
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
)
