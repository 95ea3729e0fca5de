"""Settings that do not work together, each with the reason and what to write instead.

Looked at twice: at registration with what the recipe alone tells, and for a pair with the rest. A setting that is still
``auto`` is no mistake: the rules choose none of these.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ft_assets.checkpoints.configuration.known import Known, gpu_of
from ft_assets.checkpoints.methods import METHODS
from ft_assets.packs.estimate.families import FAMILIES
from ft_assets.recipes.models import Recipe
from ft_assets.recipes.strict import nearest
from ft_resources.errors import BadRecipe


@dataclass(frozen=True, kw_only=True, slots=True)
class Combination:
    """``found`` says what is wrong of a settled recipe, "" where nothing is; ``instead`` is what to do about it."""

    where: str
    found: Callable[[Recipe, Known | None], str]
    instead: str


def _quantised_shards(recipe: Recipe, known: Known | None) -> str:
    """https://github.com/huggingface/accelerate/issues/3983 for what happens; 8-bit under ZeRO-3 gives a wrong loss."""
    if recipe.variant != "qlora" or recipe.hardware.sharding not in ("zero3", "fsdp"):
        return ""
    return (
        f"{recipe.hardware.sharding} cuts weights into pieces, and a base held in 4 or 8 bits does not survive that: "
        "its storage is no number of the arithmetic of training, and its scales belong to whole blocks"
    )


def _factored_shards(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.optimizer != "adafactor" or recipe.hardware.sharding in ("auto", "none"):
        return ""
    return (
        f"adafactor keeps the means of whole rows and columns of a matrix, and {recipe.hardware.sharding} gives each "
        "GPU only a piece of them"
    )


def _kept_shards(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.keep_best is None or recipe.hardware.sharding in ("auto", "none"):
        return ""
    return f"keep_best writes weights while training goes on, and under {recipe.hardware.sharding} no process has them"


def _nothing_to_shard(recipe: Recipe, known: Known | None) -> str:
    sharding, hardware = recipe.hardware.sharding, recipe.hardware
    if sharding in ("auto", "none") or hardware.world > 1:
        return ""
    has = "a single one" if hardware.gpus else "none"
    return f"{sharding} divides a training between GPUs, and this one has {has}"


def _fp16_shards(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.precision != "fp16" or recipe.hardware.sharding in ("auto", "none"):
        return ""
    return (
        f"fp16 scales its gradients as a whole, and under {recipe.hardware.sharding} each GPU sees only a part of them"
    )


def _fp16_on_cpu(recipe: Recipe, known: Known | None) -> str:
    if recipe.training.precision != "fp16" or recipe.hardware.device != "cpu":
        return ""
    return "fp16 with loss scaling is for GPUs; on a CPU it is slower than fp32 and no more exact than bf16"


def _no_bf16(recipe: Recipe, known: Known | None) -> str:
    gpu, named = gpu_of(recipe.hardware)
    if recipe.training.precision != "bf16" or gpu is None or not named or gpu.bf16:
        return ""
    return f"{gpu.name} does not compute in bf16"


def _split_examples(recipe: Recipe, known: Known | None) -> str:
    if recipe.packing.overlong != "split" or recipe.method == "cpt":
        return ""
    return f"{recipe.method} learns from whole examples, and a piece of one has lost its question or its answer"


def _cut_texts(recipe: Recipe, known: Known | None) -> str:
    if recipe.packing.overlong != "truncate" or recipe.method != "cpt":
        return ""
    return "all of a text is learned, so nothing of one that is too long may be cut away: truncate would drop it"


def _asked_of_texts(recipe: Recipe, known: Known | None) -> str:
    metric = recipe.gates.task_gain.metric
    if recipe.method != "cpt" or metric in ("perplexity", "preference_accuracy"):
        return ""
    return f"text asks for no answers, so {metric} cannot be measured on its holdout"


def _preference_without_pairs(recipe: Recipe, known: Known | None) -> str:
    if recipe.gates.task_gain.metric != "preference_accuracy" or METHODS[recipe.method].form == "preference":
        return ""
    return f"{recipe.method} learns from no pairs, so there are none on its holdout to prefer an answer of"


def _learn_without_turns(recipe: Recipe, known: Known | None) -> str:
    if recipe.packing.learn == "all_assistant" or recipe.method == "sft":
        return ""
    if recipe.method == "cpt":
        return "text has no turns of an assistant; all of it is learned"
    return f"{recipe.method} compares whole answers, so all of each answer counts"


def _loss_of_dpo(recipe: Recipe, known: Known | None) -> str:
    if recipe.preference.loss == "sigmoid" or recipe.method != "orpo":
        return ""
    return "preference.loss is a choice of dpo; orpo has one loss"


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
    if not recipe.new_tokens or (recipe.method, recipe.variant) == ("cpt", "full"):
        return ""
    if recipe.variant == "full":
        return f"embeddings of new tokens are learned from much text, and {recipe.method} is not that"
    return (
        f"a {recipe.variant} adapter is served as low-rank updates beside its base, by vLLM and others alike, and has "
        "no embedding rows: those of new tokens could not be carried"
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


COMBINATIONS: tuple[Combination, ...] = (
    Combination(
        where="hardware.sharding",
        found=_quantised_shards,
        instead="Use sharding none, zero1 or zero2, as a base in 4 bits is small; or variant lora.",
    ),
    Combination(
        where="training.optimizer",
        found=_factored_shards,
        instead="Use optimizer adamw, whose states can be divided, or sharding none.",
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
        where="packing.overlong",
        found=_split_examples,
        instead="Use overlong truncate or drop, or method cpt.",
    ),
    Combination(
        where="packing.overlong",
        found=_cut_texts,
        instead="Use overlong split, which learns every token once, or drop.",
    ),
    Combination(where="packing.learn", found=_learn_without_turns, instead="Leave packing.learn out."),
    Combination(where="preference.loss", found=_loss_of_dpo, instead="Leave preference.loss out, or use method dpo."),
    Combination(
        where="training.global_batch_size",
        found=_uneven_batch,
        instead="Use a multiple of GPUs times micro_batch_size, or auto.",
    ),
    Combination(
        where="gates.task_gain.metric",
        found=_asked_of_texts,
        instead="Use metric perplexity.",
    ),
    Combination(
        where="new_tokens",
        found=_new_rows_without_full,
        instead="Train method cpt with variant full and new_tokens first, then this recipe on base artifact:… of that.",
    ),
    Combination(
        where="gates.task_gain.metric",
        found=_preference_without_pairs,
        instead="Use metric perplexity, exact_match where answers are asked for, or method dpo or orpo.",
    ),
    Combination(
        where="lora.target_modules",
        found=_unknown_modules,
        instead="Name modules of this base, or use all-linear.",
    ),
)


def require_possible(recipe: Recipe, known: Known | None, where: str = "") -> None:
    """Raises BadRecipe for the first combination in ``recipe`` that does not work. ``where`` names file or pair."""
    for combination in COMBINATIONS:
        problem = combination.found(recipe, known)
        if problem:
            place = f"{where}, {combination.where}" if where else combination.where
            raise BadRecipe(problem, where=place, remedy=combination.instead)
