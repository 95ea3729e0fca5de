"""The model that is trained: the base as loaded, adapters where asked, and the files that training leaves."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peft import LoraConfig
from transformers import AutoModelForCausalLM
from transformers.integrations import is_deepspeed_zero3_enabled
from transformers.utils.logging import disable_progress_bar

from ft_assets.base_models.weights import require_every_weight
from ft_assets.checkpoints.variants import Variant
from ft_assets.checkpoints.variants.holding import holding, keep_held
from ft_assets.packs.isolation.architectures import require_packable_folder, require_packable_modules
from ft_assets.packs.isolation.attention import ATTENTION, register
from ft_assets.packs.isolation.guard import guard
from ft_assets.recipes.training import LoraSettings, TrainingSettings


def load_base(
    folder: Path,
    training: TrainingSettings,
    *,
    full: bool,
    four_bit: bool = False,
    device: str = "cpu",
    max_length: int | None = None,
    spread: Mapping[str, Any] | None = None,
) -> Any:
    """The causal language model in ``folder``, with attention that keeps documents apart, and guarded.

    How its weights are held: see ``Variant.weights``. Each weight goes to ``device`` as it is read, unless ranks share
    them: then no rank has all of them in the machine's memory on their way to a GPU.
    ``max_length`` is that of the windows, ``spread`` says how ranks share the weights. Raises BadBase where weights
    are missing, or where documents would leak through the architecture.
    """
    register()
    disable_progress_bar()
    require_packable_folder(folder, max_length=max_length)
    assert training.precision != "auto"
    weights = Variant(adapters=not full, four_bit=four_bit).weights(training.precision)
    shared = bool(spread) or is_deepspeed_zero3_enabled()
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        folder,
        attn_implementation=ATTENTION,
        use_safetensors=True,
        trust_remote_code=False,
        local_files_only=True,
        output_loading_info=True,
        **({} if shared or device == "cpu" else {"device_map": {"": device}}),
        **holding(weights, training.precision, device),
        **(spread or {}),
    )
    model, loading = loaded
    require_every_weight(loading, str(folder))
    require_packable_modules(model)
    guard(model)
    keep_held(model)
    return model


def lora_config(lora: LoraSettings) -> LoraConfig:
    """PEFT's form of the recipe's adapter settings."""
    assert isinstance(lora.rank, int)
    assert isinstance(lora.alpha, int)
    targets = lora.target_modules if isinstance(lora.target_modules, str) else list(lora.target_modules)
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=targets,
        bias="none",
    )


def save_final(model: Any, folder: Path, *, source: str, revision: str | None, full: bool, state: Any = None) -> None:
    """Write the PEFT folder or the full model. Equal weights give equal bytes: no local paths, no set orders.

    ``source`` and ``revision`` name the base as the recipe's lock does, so that a PEFT folder says what it belongs to.
    ``state`` has the weights where ``model`` does not hold all of them.
    """
    if full:
        # The trainer switched it off, which is no property of the model.
        model.config.use_cache = True
        model.save_pretrained(folder, state_dict=state)
        return
    # "auto" would ask the hub whether the base's vocabulary was resized; ours never is.
    model.save_pretrained(folder, save_embedding_layers=False, state_dict=state)
    (folder / "README.md").unlink(missing_ok=True)
    path = folder / "adapter_config.json"
    config = json.loads(path.read_bytes())
    config |= {"base_model_name_or_path": source, "revision": revision}
    for name in ("target_modules", "modules_to_save", "exclude_modules"):
        if isinstance(config.get(name), list):
            config[name] = sorted(config[name])
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
