"""A base's architecture at tiny random size, built only from its ``config.json``."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import math
from collections.abc import Iterator
from typing import Any

import torch

from ft_assets.settings.catalogue.composites import COMPOSITES
from ft_assets.workers.packs.isolation.architectures import (
    REMEDY,
    auto_class,
    causal_class,
    require_known,
    require_packable,
    require_packable_modules,
)
from ft_assets.workers.packs.isolation.attention import ATTENTION, register
from ft_resources.errors import BadBase

VOCABULARY = 512
_HEAD_SIZE, _HEADS, _LAYERS, _EXPERTS = 16, 4, 2, 4
_SPREAD = 2.0
"""Standard deviation of a weight matrix's output for unit inputs: larger than any initialisation, so a leak shows."""
# Further names of sizes in some models' configs, and their tiny values.
_SMALLER = {
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "num_experts": _EXPERTS,
    "num_local_experts": _EXPERTS,
    "n_routed_experts": _EXPERTS,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": _HEAD_SIZE,
    "qk_rope_head_dim": _HEAD_SIZE,
    "v_head_dim": _HEAD_SIZE,
    "vocab_size_per_layer_input": VOCABULARY,
    "hidden_size_per_layer_input": 16,
}
_OTHERS = {
    **dict.fromkeys(("depth", "num_hidden_layers"), 1),
    **dict.fromkeys(("num_heads", "num_attention_heads"), 2),
    **dict.fromkeys(("hidden_size", "embed_dim", "intermediate_size", "out_hidden_size"), 32),
    **dict.fromkeys(("vision_output_dim", "projector_input_dim", "projector_output_dim"), 32),
    "head_dim": 16,
    "deepstack_visual_indexes": [0],
    **{"conf_num_hidden_layers": 1, "conf_num_attention_heads": 2},
}
_STATE_SPACE = (
    ("mamba_expand", "mamba_d_head", "mamba_n_heads", "mamba_n_groups"),
    ("expand", "head_dim", "num_heads", "n_groups"),
)
"""Names of the width by which a state-space layer is wider, its heads' size and number, and how many share a state."""
_TOKENS = ("pad_token_id", "bos_token_id", "eos_token_id")


class MissingPackage(BadBase):
    """A part of the model is made by a package that is not installed here."""

    def __init__(self, kind: str, error: ImportError) -> None:
        super().__init__(
            f"{kind} needs a package that is not installed where it would train: {str(error).strip().splitlines()[0]}",
            where="config.json",
            remedy="Install the package there, or take a base of text only.",
        )


def tiny_model(config: dict[str, Any], *, max_length: int | None = None, seed: int = 0) -> Any:
    """The causal language model of ``config`` (a ``config.json``) with few, narrow layers of random weights.

    Kept are the architecture, the ratio of query to key heads, positions, windows, activations and norms. Equal configs
    give equal weights, and no random generator of the process advances. Nothing is loaded, no code of a base runs. The
    model is in evaluation mode, with our attention.

    Raises BadBase for an architecture that Transformers does not have, that leaks between documents (see
    ``require_packable``), or that cannot be built at this size; MissingPackage for one that needs another package.
    """
    from transformers import CONFIG_MAPPING

    kind = str(config.get("model_type"))
    # Some configs name their own code for an architecture that Transformers has; that code is never run.
    config = {name: value for name, value in config.items() if name != "auto_map"}
    require_known(kind)
    config_class = CONFIG_MAPPING[kind]
    whole = config_class.from_dict(dict(config))
    whole = whole if kind in COMPOSITES else whole.get_text_config()
    require_packable(whole, causal_class(whole), max_length=max_length)
    register()
    try:
        text = whole.get_text_config()
        values = _shrunk(text)
        if text is not whole:
            parts = ((name, getattr(whole, name)) for name in whole.sub_configs)
            others = {name: _barely(part) for name, part in parts if part is not None and part is not text}
            values = {**whole.to_dict(), "text_config": values, **others}
        small = type(whole).from_dict(values)
        with torch.random.fork_rng(devices=[]):
            model: Any = auto_class(kind).from_config(small, attn_implementation=ATTENTION, dtype=torch.float32)
    except ImportError as error:
        raise MissingPackage(kind, error) from error
    except Exception as error:  # Whatever an architecture requires that our sizes do not satisfy.
        raise BadBase(
            f"the architecture {kind} cannot be built at tiny size, so its packing cannot be proven: {error}",
            where="config.json",
            remedy=REMEDY,
        ) from error
    require_packable_modules(model)
    _randomize(model, seed)
    return model.eval().requires_grad_(False)


def _shrunk(config: Any) -> dict[str, Any]:
    """The settings of ``config`` at tiny size, under its class's own names."""
    values: dict[str, Any] = config.to_dict()
    names: dict[str, str] = config.attribute_map
    # A state-space model without attention has none.
    heads = int(getattr(config, "num_attention_heads", None) or 1)
    groups = max(1, heads // int(getattr(config, "num_key_value_heads", None) or heads))
    key_heads = _HEADS if groups == 1 else max(1, _HEADS // groups)
    wanted = {
        "vocab_size": min(VOCABULARY, int(config.vocab_size)),
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": groups * key_heads,
        "num_key_value_heads": key_heads,
        "hidden_size": groups * key_heads * _HEAD_SIZE,
        "intermediate_size": 2 * groups * key_heads * _HEAD_SIZE,
        "head_dim": _HEAD_SIZE,
    }
    for name, value in wanted.items():
        own = names.get(name, name)
        if own in values:
            values[own] = value
    for name, value in _SMALLER.items():
        if values.get(name):
            values[name] = value
    _fit_state_space(config, values)
    for name, value in values.items():
        if isinstance(value, list) and len(value) == config.num_hidden_layers:
            values[name] = _each_kind(value, _LAYERS)
        elif isinstance(value, dict) and value and all(str(key).isdigit() for key in value):
            values[name] = {key: each for key, each in value.items() if int(key) < _LAYERS}
    for rope in _nested(values.get("rope_parameters")):
        share = rope.get("partial_rotary_factor", values.get("partial_rotary_factor")) or 1.0
        turned = int(_HEAD_SIZE * share) // 2
        if "mrope_section" in rope:
            # Frequencies that turn with time, height and width.
            time, height = turned // 4, (turned - turned // 4) // 2
            rope["mrope_section"] = [time, height, turned - time - height]
        for factors in ("short_factor", "long_factor"):
            if factors in rope:
                rope[factors] = rope[factors][:turned]
    values |= {name: 0 for name in _TOKENS if values.get(name) is not None}
    values.pop("quantization_config", None)
    values["dtype"] = "float32"
    return values


def _fit_state_space(config: Any, values: dict[str, Any]) -> None:
    """State-space layers with heads as large as they are, and as many as the width has room for."""
    for expand, size, heads, groups in _STATE_SPACE:
        if not all(isinstance(values.get(name), int) for name in (expand, size, heads, groups)):
            continue
        width = values[expand] * values["hidden_size"]
        values[size] = math.gcd(getattr(config, size), width)
        values[heads] = width // values[size]
        values[groups] = math.gcd(values[groups], values[heads])
        if values.get("mamba_d_ssm"):
            values["mamba_d_ssm"] = width


def _barely(part: Any) -> dict[str, Any]:
    """The settings of a vision or audio part, which no text passes, at a size that costs nothing."""
    values: dict[str, Any] = part.to_dict()
    return values | {name: value for name, value in _OTHERS.items() if name in values}


def _each_kind(kinds: list[Any], count: int) -> list[Any]:
    """``count`` entries of ``kinds``, each different one if there is room: [s, s, s, f] becomes [s, f]."""
    different = list(dict.fromkeys(kinds))
    return (different + kinds)[:count] if len(different) > 1 else kinds[:count]


def _nested(rope: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    for value in [rope, *(rope or {}).values()]:
        if isinstance(value, dict):
            yield value


def _randomize(model: torch.nn.Module, seed: int) -> None:
    """Weights that make every token matter: wide matrices, norms near 1, tied ones once."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        drawn = torch.randn(parameter.shape, generator=generator)
        if name.endswith("A_log"):
            # A state that fades slowly.
            parameter.data = -3.0 + 0.1 * drawn
        elif parameter.ndim < 2:
            parameter.data = (0.0 if name.endswith("bias") else 1.0) + 0.1 * drawn
        else:
            parameter.data = drawn * (_SPREAD / math.sqrt(parameter.shape[-1]))
