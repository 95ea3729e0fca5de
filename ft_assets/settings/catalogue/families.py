"""The model families that are tried in the tests, and how their documents run (``packing.mode: auto``).

A training decides by the base itself; this says beforehand what it will decide, without loading anything.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ft_assets.settings.catalogue.composites import COMPOSITES, text_settings

_PACKED = [
    "apertus",
    "arcee",
    "cohere",
    "cohere2",
    "deepseek_v2",
    "deepseek_v3",
    "dots1",
    "ernie4_5",
    "ernie4_5_moe",
    "exaone4",
    "gemma",
    "gemma3",
    "gemma3_text",
    "glm",
    "glm4",
    "glm4_moe",
    "gpt2",
    "gpt_neox",
    "granite",
    "granitemoe",
    "hunyuan_v1_dense",
    "hunyuan_v1_moe",
    "llama",
    "minimax_m2",
    "ministral",
    "mistral",
    "mistral3",
    "mixtral",
    "olmo2",
    "olmo3",
    "olmoe",
    "phi",
    "phi3",
    "phimoe",
    "qwen2",
    "qwen2_5_vl",
    "qwen2_moe",
    "qwen2_vl",
    "qwen3",
    "qwen3_moe",
    "qwen3_vl",
    "seed_oss",
    "smollm3",
    "starcoder2",
]
_STATE_SPACE, _DELTA, _SHORT = "state-space layers", "linear attention", "short convolutions"
_UNTOLD = "attention that is not told where documents begin"
_APART = {
    "bamba": _STATE_SPACE,
    "bloom": "attention of its own (ALiBi)",
    "falcon": "attention of its own",
    "falcon_h1": _STATE_SPACE,
    "falcon_mamba": _STATE_SPACE,
    "gemma2": "attention scores with a softcap",
    "gemma3n_text": "layers that share keys and values",
    "gpt_oss": "attention sinks",
    "granitemoehybrid": _STATE_SPACE,
    "jamba": _STATE_SPACE,
    "kimi_linear": _DELTA,
    "lfm2": _SHORT,
    "lfm2_moe": _SHORT,
    "llama4": "chunked attention",
    "llama4_text": "chunked attention",
    "mamba": _STATE_SPACE,
    "mamba2": _STATE_SPACE,
    "minimax": _DELTA,
    "mpt": "attention of its own (ALiBi)",
    "nemotron": _UNTOLD,
    "nemotron_h": _STATE_SPACE,
    "qwen3_5": _DELTA,
    "qwen3_5_text": _DELTA,
    "qwen3_next": _DELTA,
    "stablelm": _UNTOLD,
    "zamba2": _STATE_SPACE,
}
FAMILIES: Mapping[str, str] = MappingProxyType({**dict.fromkeys(_PACKED, ""), **_APART})
"""``model_type`` to why its documents run apart; empty where they are packed."""


_ONLY_WITH = {"gemma2": "attn_logit_softcapping"}
"""Families whose documents are packed where this setting is null."""
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


def has_experts(config: Mapping[str, Any]) -> bool:
    """Whether a parsed ``config.json`` says that feed-forward layers have several experts. Hybrids name numbers that
    none of their layers has: those are not believed."""
    values = text_settings(config)
    counts = (values.get(name) for name in _EXPERTS)
    return "layers_block_type" not in values and any(isinstance(count, int) and count > 1 for count in counts)


def how_documents_run(config: bytes | None) -> tuple[str, str]:
    """How documents of a base with this ``config.json`` will run, and why; both empty without one."""
    try:
        values = json.loads(config or b"{}")
    except ValueError:
        return "", ""
    if not isinstance(values, dict) or "model_type" not in values:
        return "", ""
    kind, text = str(values["model_type"]), text_settings(values)
    if kind not in COMPOSITES:
        kind = str(text.get("model_type", kind))
    if kind not in FAMILIES:
        return "decided when it trains", ""
    packed = not FAMILIES[kind] or text.get(_ONLY_WITH.get(kind, "model_type"), "its default") is None
    return ("packed", "") if packed else ("apart", FAMILIES[kind])
