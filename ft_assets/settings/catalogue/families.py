"""The model families that the tests cover, and how their documents run (``packing.mode: auto``).

A training decides by the base itself; this predicts its decision, without loading anything.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ft_assets.settings.catalogue.composites import COMPOSITES, parsed, text_settings
from ft_assets.settings.catalogue.placed import PLACED

_PACKED = [
    "apertus",
    "arcee",
    "cohere",
    "cohere2",
    "cohere2_moe",
    "deepseek_v2",
    "deepseek_v3",
    "dots1",
    "ernie4_5",
    "ernie4_5_moe",
    "exaone4",
    "gemma",
    "gemma2",
    "gemma3",
    "gemma3_text",
    "gemma4",
    "gemma4_text",
    "glm",
    "glm4",
    "glm4_moe",
    "glm4_moe_lite",
    "glm4v",
    "glm4v_moe",
    "gpt2",
    "gpt_neox",
    "gpt_oss",
    "granite",
    "granitemoe",
    "granitemoeshared",
    "hunyuan_v1_dense",
    "hunyuan_v1_moe",
    "internlm3",
    "internvl",
    "llama",
    "llava",
    "minimax_m2",
    "ministral",
    "ministral3",
    "mistral",
    "mistral3",
    "mixtral",
    "mllama",
    "olmo",
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
    "qwen3_vl_moe",
    "seed_oss",
    "smollm3",
    "starcoder2",
]
_STATE_SPACE, _DELTA, _SHORT = "state-space layers", "linear attention", "short convolutions"
_CHOSEN = "attention to chosen tokens of the row"
_UNTOLD = "attention that is not told where documents begin"
_APART = {
    "bamba": _STATE_SPACE,
    "bloom": "attention of its own (ALiBi)",
    "deepseek_v32": _CHOSEN,
    "falcon": "attention of its own",
    "falcon_h1": _STATE_SPACE,
    "falcon_mamba": _STATE_SPACE,
    "gemma3n": "layers that share keys and values",
    "gemma3n_text": "layers that share keys and values",
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
    "qwen3_5_moe": _DELTA,
    "qwen3_5_moe_text": _DELTA,
    "qwen3_5_text": _DELTA,
    "qwen3_next": _DELTA,
    "stablelm": _UNTOLD,
    "zamba2": _STATE_SPACE,
}
FAMILIES: Mapping[str, str] = MappingProxyType({**dict.fromkeys(_PACKED, ""), **_APART})
"""``model_type`` to why its documents run apart; empty where they are packed."""
TEN = ("llama", "qwen3", "gemma3_text", "phi3", "mixtral", "deepseek_v3", "gpt_oss", "qwen3_next", "lfm2", "gemma2")
"""Families with further tests at each change: a training step, the resumption of a full training, and a 4-bit
training."""
KNOWN: Mapping[str, str] = MappingProxyType({**FAMILIES, **PLACED})
"""``FAMILIES``, and those that the tests do not train."""


_SCORES = {
    **dict.fromkeys(("gemma2", "vaultgemma"), "attention scores with a softcap"),
    **dict.fromkeys(("flint", "gpt_oss", "granite_swa", "granitemoe_swa", "mimo_v2_flash"), "attention sinks"),
}
"""Families that are packed on a CPU, and on a GPU if a fused function computes their attention correctly."""
TOLD = frozenset(
    [
        *("bailing_hybrid", "bamba", "falcon_h1", "granitemoehybrid", "kimi_linear", "lfm2", "lfm2_moe", "lfm2_vl"),
        *("mamba2", "nemotron_h", "olmo_hybrid", "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text"),
        *("qwen3_next", "zamba2"),
    ]
)
"""Families whose layers are told by Transformers where documents begin: packed if a trial shows that their kernels
respect it."""
UNDECIDED = "decided when it trains"
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


def has_experts(config: Mapping[str, Any]) -> bool:
    """Whether a parsed ``config.json`` says that feed-forward layers have several experts. Hybrids may state numbers
    that apply to none of their layers; those are ignored."""
    values = text_settings(config)
    counts = (values.get(name) for name in _EXPERTS)
    return "layers_block_type" not in values and any(isinstance(count, int) and count > 1 for count in counts)


def how_documents_run(config: bytes | None, *, gpus: int = 0) -> tuple[str, str]:
    """How documents of a base with this ``config.json`` will run, and why; both empty without one.

    ``gpus``: those that train; whether their kernels keep documents apart is tried on them.
    """
    values = parsed(config)
    if "model_type" not in values:
        return "", ""
    kind = str(values["model_type"])
    if kind not in COMPOSITES:
        kind = str(text_settings(values).get("model_type", kind))
    if kind not in KNOWN:
        return UNDECIDED, f"by a trial at tiny size: {kind} is not among the families that are known"
    if gpus and kind in TOLD:
        return UNDECIDED, f"{KNOWN[kind]}: packed if the kernels on its GPU pass a trial, otherwise apart"
    if gpus and (scores := changed_scores(values)):
        return UNDECIDED, f"{scores}: packed if a fused function on its GPU passes a trial, otherwise apart"
    return ("apart", KNOWN[kind]) if KNOWN[kind] else ("packed", "")


def changed_scores(config: Mapping[str, Any]) -> str:
    """What a base with this parsed ``config.json`` does to its attention's scores before the softmax; "" for most."""
    text = text_settings(config)
    has = text.get("attn_logit_softcapping", "its default") is not None
    return _SCORES.get(str(text.get("model_type")), "") if has else ""


def why_apart(config: bytes | None) -> str:
    """Why documents of a base with this ``config.json`` run apart on a CPU; "" if they are packed, or may be."""
    mode, why = how_documents_run(config)
    return why if mode == "apart" else ""


def packed_by_kernels(config: bytes | None) -> bool:
    """Whether documents of this base that run apart on a CPU may be packed on a GPU, if its kernels pass a trial."""
    return bool(why_apart(config)) and how_documents_run(config, gpus=1)[0] == UNDECIDED
