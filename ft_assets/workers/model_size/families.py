"""The decoder families whose config.json is understood."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """How a family differs from Llama, grouped by subject.

    Args:
        tied, qkv_bias, biases: defaults if config.json does not say. ``biases``: all matrices have one.
        norms: normalisations of the hidden width in a layer; each also has a bias if ``biases``.
        qk_norm: queries and keys are normalised, with weights of a ``head`` or of the whole ``width``.
        fused: query, key and value are one matrix; ``fused_mlp``: gate and up projection are.
        gated: the feed-forward part has a gate.
        adapted_router: PEFT's all-linear reaches router and experts, gate and up projection by an adapter of their
            own each; else all-linear adds one adapter for both, and none for the router.
        grouped: several queries may share a key.
        active: number of experts that a token passes if config.json does not say; 0 for families without experts.
        ends: the modules before and after the layers that can have an adapter: embeddings and output head.
        keys: names of Llama's settings in this family's config.json.
    """

    tied: bool = False
    qkv_bias: bool = False
    biases: bool = False
    norms: int = 2
    qk_norm: str = ""
    fused: str = ""
    fused_mlp: str = ""
    names: tuple[str, str, str] = ("o_proj", "up_proj", "down_proj")
    gated: bool = True
    adapted_router: bool = True
    grouped: bool = True
    active: int = 0
    ends: tuple[str, ...] = ("embed_tokens", "lm_head")
    keys: tuple[tuple[str, str], ...] = ()


_GPT2_KEYS = (
    ("hidden_size", "n_embd"),
    ("num_hidden_layers", "n_layer"),
    ("num_attention_heads", "n_head"),
    ("intermediate_size", "n_inner"),
    ("max_position_embeddings", "n_positions"),
)
FAMILIES: dict[str, Family] = {
    "llama": Family(),
    "mistral": Family(),
    "mixtral": Family(active=2),
    "qwen2": Family(qkv_bias=True),
    "qwen2_moe": Family(qkv_bias=True, adapted_router=False, active=4),
    "qwen3": Family(qk_norm="head"),
    "qwen3_moe": Family(qk_norm="head", active=8),
    "phi3": Family(fused="qkv_proj", fused_mlp="gate_up_proj"),
    "olmo2": Family(qk_norm="width"),
    "gemma": Family(tied=True),
    "gemma2": Family(tied=True, norms=4),
    "gemma3_text": Family(tied=True, norms=4, qk_norm="head"),
    "gpt2": Family(
        tied=True,
        biases=True,
        fused="c_attn",
        names=("c_proj", "c_fc", "c_proj"),
        gated=False,
        ends=("wte", "wpe", "lm_head"),
        keys=_GPT2_KEYS,
    ),
    "gpt_neox": Family(
        biases=True,
        fused="query_key_value",
        names=("dense", "dense_h_to_4h", "dense_4h_to_h"),
        gated=False,
        grouped=False,
        ends=("embed_in", "embed_out"),
    ),
}
_ALIKE = {
    "ministral3": "mistral",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
}


def family_of(model_type: str) -> Family | None:
    """The family of a text model; the text parts of some composites are models of another name."""
    return FAMILIES.get(_ALIKE.get(model_type, model_type))
