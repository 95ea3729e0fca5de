"""The model that is trained: loading the base, adapter settings, and the files that training leaves."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig
from transformers.integrations import is_deepspeed_zero3_enabled
from transformers.quantizers.base import get_keys_to_not_convert
from transformers.utils.logging import disable_progress_bar

from ft_assets.settings.recipe.training import LoraSettings, TrainingSettings
from ft_assets.workers.base_models.weights import require_every_weight
from ft_assets.workers.packs.isolation.architectures import auto_class
from ft_assets.workers.packs.isolation.choice import Choice, choose
from ft_assets.workers.packs.isolation.told import Arithmetic
from ft_assets.workers.training.float8 import multiply_in_float8
from ft_assets.workers.training.variants import Variant, Weights
from ft_assets.workers.training.variants.adapter_targets import adapter_targets, read_not_called
from ft_assets.workers.training.variants.pissa import PRINCIPAL, save_from_principal, start_from_principal
from ft_assets.workers.training.variants.text_part import freeze_other_parts, other_parts
from ft_resources.errors import BadRecipe

_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def load_base(
    folder: Path,
    training: TrainingSettings,
    *,
    full: bool,
    four_bit: bool = False,
    device: str = "cpu",
    choice: Choice | None = None,
    spread: Mapping[str, Any] | None = None,
) -> Any:
    """The causal language model in ``folder``, for packed documents or documents that run apart, as ``choice`` says.

    ``Variant.weights`` decides the dtype of its weights. Unless ranks share them, each weight goes to ``device`` as it
    is read, so that the host never holds all of them. ``choice`` defaults to that of the folder; ``spread`` has the
    arguments by which ranks share the weights. Raises BadBase for missing weights, and what ``multiply_in_float8``
    raises.
    """
    disable_progress_bar()
    choice = choice or choose(folder)
    assert training.precision != "auto"
    weights = Variant(adapters=not full, four_bit=four_bit).weights(training.precision, training.weights)
    shared = bool(spread) or is_deepspeed_zero3_enabled()
    loaded: Any = auto_class(choice.kind).from_pretrained(
        folder,
        use_safetensors=True,
        trust_remote_code=False,
        local_files_only=True,
        output_loading_info=True,
        **({} if shared or device == "cpu" else {"device_map": {"": device}}),
        **choice.loading,
        **_holding(weights, training.precision, device, folder, choice),
        **(spread or {}),
    )
    model, loading = loaded
    require_every_weight(loading, str(folder))
    choice.prepare(model)
    _keep_held(model)
    # With weights divided by DeepSpeed, Transformers keeps renamings that this checkpoint did not need, and would undo
    # them in the files of a full model.
    if conversions := getattr(model, "_weight_conversions", None):
        model._weight_conversions = [each for each in conversions if each.was_used()]
    if full:
        freeze_other_parts(model)
    if training.precision == "fp8":
        multiply_in_float8(model, emulated=device == "cpu")
    return model


def arithmetic_of(training: TrainingSettings, *, full: bool, four_bit: bool, device: str) -> Arithmetic:
    """The dtypes in which ``load_base`` holds a model and a training computes."""
    assert training.precision != "auto"
    weights = Variant(adapters=not full, four_bit=four_bit).weights(training.precision, training.weights)
    computed = "bf16" if training.precision == "fp8" else training.precision
    half = None if computed == "fp32" else _DTYPES[computed]
    return Arithmetic(device=device, weights=_DTYPES[computed if weights == "nf4" else weights], half=half)


def drops_out(model: Any) -> bool:
    """Whether the base itself has dropout or router noise in training, according to its config."""
    values = model.config.get_text_config().to_dict()
    names = (name for name, value in values.items() if isinstance(value, float) and value > 0)
    drawn = (name for name in names if any(word in name for word in ("dropout", "pdrop", "jitter")))
    # These are for heads that a causal language model does not have.
    return any(not name.startswith(("classifier_", "summary_")) for name in drawn)


def require_targets(model: Any, lora: LoraSettings) -> None:
    """Raise BadRecipe for a name in ``lora.target_modules`` that matches no module of ``model`` by PEFT's comparison,
    and for one whose adapter would not train.

    PEFT ignores a name without a module if others match. Errors visible in the recipe alone are refused earlier
    (``combinations.py``).
    """
    if isinstance(lora.target_modules, str):
        return
    others = tuple(f"{part}." for part in other_parts(model))
    names = [
        name for name, _ in chain(model.named_modules(), model.named_parameters()) if not f"{name}.".startswith(others)
    ]
    read = read_not_called(model)
    for target in lora.target_modules:
        named = [name for name in names if name == target or name.endswith(f".{target}")]
        if not named:
            raise BadRecipe(
                f"the base has no module {target!r}",
                where="lora.target_modules",
                remedy="Name modules of this base, by their last names or in full, or use all-linear.",
            )
        if untrained := sorted(read & set(named)):
            raise BadRecipe(
                f"an adapter at {untrained[0]} would not train: the state-space layer takes its weight without calling "
                "it, where mamba-ssm's fused kernels are installed",
                where="lora.target_modules",
                remedy="Leave it out, or use all-linear, which leaves it out.",
            )


def with_adapters(model: Any, lora: LoraSettings) -> Any:
    """``model`` with new adapters; only these train."""
    assert isinstance(lora.rank, int)
    assert isinstance(lora.alpha, int)
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        bias="none",
        use_rslora=lora.use_rslora,
        use_dora=lora.use_dora,
        **adapter_targets(model, lora),
    )
    adapted = get_peft_model(model, config)
    if lora.init == "pissa":
        start_from_principal(adapted)
    return adapted


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """The base as the recipe's lock names it, and the dtype in which it is stored."""

    source: str
    revision: str | None
    dtype: str


def save_final(model: Any, folder: Path, origin: Origin, *, full: bool, state: Any = None) -> None:
    """Write the PEFT folder or the full model. Equal weights give equal bytes: no local paths, no set orders.

    A PEFT folder names the base that it belongs to. A full model is rounded to the base's dtype: as large as its base,
    and scored and served like it. ``state`` has the weights where ``model`` does not hold all of them.
    """
    if full:
        _save_full(model, folder, origin.dtype, state)
        return
    # "auto" would ask the hub whether the base's vocabulary was resized, which it never is here.
    model.save_pretrained(folder, save_embedding_layers=False, state_dict=state, selected_adapters=["default"])
    if PRINCIPAL in model.peft_config:
        save_from_principal(model, folder)
    (folder / "README.md").unlink(missing_ok=True)
    path = folder / "adapter_config.json"
    config = json.loads(path.read_bytes())
    config |= {"base_model_name_or_path": origin.source, "revision": origin.revision}
    for name in ("target_modules", "modules_to_save", "exclude_modules", "target_parameters"):
        if isinstance(config.get(name), list):
            config[name] = sorted(config[name])
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def _save_full(model: Any, folder: Path, dtype: str, state: Any) -> None:
    if state is None:
        state = {name: value for name, value in model.state_dict().items() if name not in model.all_tied_weights_keys}
    # One after the other, so that no device holds all of them twice.
    rounded = {name: _rounded(state.pop(name), getattr(torch, dtype)) for name in list(state)}
    # The trainer switched the cache off, which is not a property of the model.
    with _caching(model.config):
        model.save_pretrained(folder, state_dict=rounded)
    path = folder / "config.json"
    config = json.loads(path.read_bytes())
    for section in (config, *(each for each in config.values() if isinstance(each, dict) and "dtype" in each)):
        section["dtype"] = dtype
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


@contextmanager
def _caching(config: Any) -> Iterator[None]:
    """While inside, every part of ``config`` that has a cache uses it."""
    parts = {id(part): part for part in (config, config.get_text_config()) if hasattr(part, "use_cache")}.values()
    before = [part.use_cache for part in parts]
    for part in parts:
        part.use_cache = True
    try:
        yield
    finally:
        for part, caching in zip(parts, before, strict=True):
            part.use_cache = caching


def _rounded(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    value = value.detach()
    return (value.to(dtype) if value.is_floating_point() else value).cpu()


def _holding(weights: Weights, precision: str, device: str, folder: Path, choice: Choice) -> dict[str, Any]:
    """Arguments of ``from_pretrained``.

    ``nf4`` is what QLoRA trains on (Dettmers et al., 2023, https://arxiv.org/abs/2305.14314): 4-bit normal floats,
    their scales quantised again, computed in ``precision``. They are created on the device that uses them, so
    ``device`` matters only to them.
    """
    if weights != "nf4":
        return {"dtype": _DTYPES[weights]}
    from transformers import BitsAndBytesConfig

    # Unquantised weights, such as embeddings and norms, are held in the dtype of computation.
    dtype = _DTYPES[precision]
    four_bit = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
        llm_int8_skip_modules=_unquantised(folder, choice),
    )
    return {"dtype": dtype, "quantization_config": four_bit, "device_map": {"": device}}


def _unquantised(folder: Path, choice: Choice) -> list[str] | None:
    """Linear layers that must not be quantised: those that Transformers skips, and those whose weight a state-space
    layer reads directly. None: only the former."""
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    with torch.device("meta"):
        model: Any = auto_class(choice.kind).from_config(config, **choice.loading)
    read = read_not_called(model)
    return [*get_keys_to_not_convert(model), *sorted(read)] if read else None


def _keep_held(model: Any) -> None:
    """Keep 4-bit weights in one format on every processor.

    On a CPU with AVX512-BF16, bitsandbytes 0.50 repacks them at the first evaluation and rounds their scales to
    bfloat16. That gives other figures than elsewhere, other weights than in training, and an error if a matrix has
    fewer columns than a block (64).
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
