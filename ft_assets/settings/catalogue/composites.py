"""Vision-language checkpoints whose text part is trained: as a whole they are loaded, and all else in them is frozen.

What is asked for here is answered from a parsed ``config.json``, without loading a model.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ft_resources.errors import BadBase

COMPOSITES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "gemma3": {
            "model_type": "gemma3_text",
            "vocab_size": 262_208,
            "hidden_size": 2304,
            "intermediate_size": 9216,
            "num_hidden_layers": 26,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "max_position_embeddings": 131_072,
        },
        "llama4": {"model_type": "llama4_text"},
        "mistral3": {"model_type": "mistral"},
        "qwen2_vl": {"model_type": "qwen2_vl_text"},
        "qwen2_5_vl": {"model_type": "qwen2_5_vl_text"},
        "qwen3_vl": {"model_type": "qwen3_vl_text"},
        "qwen3_5": {"model_type": "qwen3_5_text"},
    }
)
"""``model_type`` to what its text part is like where ``config.json`` does not say: makers leave out what is the default
of Transformers' class."""
_OTHER_PARTS = ("vision_config", "audio_config")


def text_settings(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of the language model. Composites keep them in a section of their own, Qwen's older ones beside the
    section of the vision part."""
    defaults = COMPOSITES.get(str(config.get("model_type")))
    inner = config.get("text_config")
    if isinstance(inner, Mapping):
        # Whether the head is tied is said of the whole model.
        tied = {name: config[name] for name in ("tie_word_embeddings",) if name in config}
        return {**(defaults or {}), **inner, **tied}
    return config if defaults is None else {**defaults, **config, "model_type": defaults["model_type"]}


def has_other_parts(config: Mapping[str, Any]) -> bool:
    """Whether there is more than a text part in a model."""
    return any(isinstance(config.get(name), Mapping) for name in _OTHER_PARTS)


def require_text_part(config: Mapping[str, Any], where: str) -> None:
    """Raise BadBase for a model with other parts of which nothing here says how its text part is trained alone."""
    kind = config.get("model_type")
    if has_other_parts(config) and kind not in COMPOSITES:
        raise BadBase(
            f"{kind} has more than a text part, and training that part alone was not tried for this architecture",
            where=where,
            remedy=f"Take a model of text only, or one of {', '.join(sorted(COMPOSITES))}.",
        )
