"""Whether ``training.compile: auto`` compiles: where attention is fused, and the training takes long enough."""

from ft_assets.control.auto.fitting import fit_of, memory_setup
from ft_assets.control.auto.rules import Choice
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.model_size.known import Known, gpu_of
from ft_assets.workers.model_size.model_size import Architecture
from ft_assets.workers.model_size.time import Work, training_seconds

# Compiling takes some minutes and saves about a tenth of the time: below half an hour it does not pay.
_PAYS_S = 1800
# Families of which a test shows that a layer is one graph, with fused attention. Routing to experts is more than one.
COMPILED = ("gemma", "gemma3_text", "llama", "mistral", "olmo2", "phi3", "qwen2", "qwen3")
# FlashAttention's limits (``isolation/varlen.py``).
_HEAD_SIZE, _HEAD_SIZE_STEP = 256, 8
_LAYOUTS = ("none", "fsdp", "hsdp")


def compiling(recipe: Recipe, known: Known) -> Choice:
    """``auto`` for a recipe whose other settings are all resolved."""
    refusal = _refusal(recipe, known.model)
    if refusal:
        return Choice("off", f"not {refusal}")
    assert known.model is not None
    if recipe.training.precision == "fp8":
        return Choice("on", "fp8 is faster than bf16 in compiled layers only")
    seconds, steps = _expected(recipe, known, known.model)
    takes = f"{steps:,} steps take about {seconds / 60:,.0f} minutes"
    if seconds < _PAYS_S:
        return Choice("off", f"{takes}; compiling pays off from {_PAYS_S // 60} minutes")
    return Choice("on", f"{takes}, including a few for compiling")


def _refusal(recipe: Recipe, model: Architecture | None) -> str:
    """Why ``auto`` does not compile; "" if it does."""
    gpu, _ = gpu_of(recipe.hardware)
    if gpu is None:
        return "on a CPU"
    if recipe.training.precision not in ("bf16", "fp16", "fp8") or not gpu.bf16:
        return "without fused attention, which needs half precision and a GPU that has bf16"
    if recipe.packing.mode == "apart":
        return "where documents run apart"
    if recipe.variant == "qlora":
        return "with a base in 4 bits"
    if recipe.hardware.context_parallel > 1:
        return "where GPUs share their windows"
    if recipe.hardware.sharding not in _LAYOUTS:
        return f"under {recipe.hardware.sharding}"
    if model is None or model.rough or model.model_type not in COMPILED:
        return f"for {model.model_type if model else 'an unknown base'}, which was not tried"
    if model.head_dim > _HEAD_SIZE or model.head_dim % _HEAD_SIZE_STEP:
        return f"without fused attention, which has no heads of {model.head_dim} numbers"
    return ""


def _expected(recipe: Recipe, known: Known, model: Architecture) -> tuple[float, int]:
    """Seconds and optimizer steps of a training on GPUs, with documents as long as windows."""
    training, gpu = recipe.training, gpu_of(recipe.hardware)[0]
    assert gpu is not None
    assert isinstance(training.global_batch_size, int)
    assert isinstance(training.epochs, int)
    each = -(-known.windows // training.global_batch_size)
    steps = min(training.epochs * each, training.max_steps or training.epochs * each)
    work = Work(
        tokens=round(known.tokens * steps / each),
        steps=steps,
        learned=known.learned.expected,
        document_length=known.tokens / known.windows,
    )
    return training_seconds(model, memory_setup(recipe, known, fit_of(recipe)), work, gpu).expected, steps
