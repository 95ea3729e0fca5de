"""Vision-language checkpoints whose text part is trained: the whole model is loaded, and everything else is frozen.

All functions here work on a parsed ``config.json``, without loading a model.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ft_assets.settings.catalogue.refused import REFUSED, UNTRIED
from ft_resources.errors import BadBase

_GEMMA = {
    "vocab_size": 262_208,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131_072,
}
_LLAMA = {
    "model_type": "llama",
    "vocab_size": 32_000,
    "hidden_size": 4096,
    "intermediate_size": 11_008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
}
COMPOSITES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "aya_vision": {"model_type": "cohere2"},
        "cohere2_vision": {"model_type": "cohere2"},
        "fuyu": {"model_type": "persimmon"},
        "gemma3": {"model_type": "gemma3_text", **_GEMMA},
        "gemma3n": {"model_type": "gemma3n_text"},
        "gemma4": {"model_type": "gemma4_text"},
        "glm46v": {"model_type": "glm4v_text"},
        "glm4v": {"model_type": "glm4v_text"},
        "glm4v_moe": {"model_type": "glm4v_moe_text"},
        "got_ocr2": {"model_type": "qwen2"},
        "idefics3": _LLAMA,
        "internvl": {"model_type": "qwen2"},
        "kimi_k25": {"model_type": "deepseek_v3"},
        "lfm2_vl": {"model_type": "lfm2"},
        "llama4": {"model_type": "llama4_text"},
        "llava": _LLAMA,
        "llava_next": _LLAMA,
        "llava_onevision": {"model_type": "qwen2"},
        "mistral3": {"model_type": "mistral"},
        "mllama": {"model_type": "mllama_text_model"},
        "qwen2_5_vl": {"model_type": "qwen2_5_vl_text"},
        "qwen2_vl": {"model_type": "qwen2_vl_text"},
        "qwen3_5": {"model_type": "qwen3_5_text"},
        "qwen3_5_moe": {"model_type": "qwen3_5_moe_text"},
        "qwen3_vl": {"model_type": "qwen3_vl_text"},
        "qwen3_vl_moe": {"model_type": "qwen3_vl_moe_text"},
        "qwen4_exp": {"model_type": "qwen4_exp_text"},
        "smolvlm": _LLAMA,
    }
)
"""By ``model_type``, settings of the text part that ``config.json`` may omit: makers leave out the defaults of
Transformers' class."""
_OTHER_PARTS = ("vision_config", "audio_config")


def parsed(config: bytes | None) -> dict[str, Any]:
    """A ``config.json`` for what only plans; empty if it cannot be read, as who trains says so."""
    try:
        value = json.loads(config or b"{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def text_settings(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of the language model. Composites keep them in a section of their own, Qwen's older ones beside the
    section of the vision part."""
    defaults = COMPOSITES.get(str(config.get("model_type")))
    inner = config.get("text_config")
    if isinstance(inner, Mapping):
        if defaults is not None and inner.get("model_type", defaults["model_type"]) != defaults["model_type"]:
            # The text part is of another family, such as a Mistral in a LLaVA.
            defaults = None
        # Whether the head is tied is a setting of the whole model.
        tied = {name: config[name] for name in ("tie_word_embeddings",) if name in config}
        return {**(defaults or {}), **inner, **tied}
    return config if defaults is None else {**defaults, **config, "model_type": defaults["model_type"]}


def has_other_parts(config: Mapping[str, Any]) -> bool:
    """Whether there is more than a text part in a model."""
    return any(isinstance(config.get(name), Mapping) for name in _OTHER_PARTS)


def require_text_part(config: Mapping[str, Any], where: str) -> None:
    """Raise BadBase for a model of ``REFUSED``, and for one with further parts that is not in ``COMPOSITES``."""
    kind = str(config.get("model_type"))
    if kind in COMPOSITES or not (kind in REFUSED or has_other_parts(config)):
        return
    raise BadBase(
        f"{kind} is not trained: {REFUSED.get(kind, UNTRIED)}",
        where=where,
        remedy=f"Take a model of text only, or one of {', '.join(sorted(COMPOSITES))}.",
    )
