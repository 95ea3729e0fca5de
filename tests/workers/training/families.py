"""Tiny random models of the families that people fine-tune."""

import json
import shutil
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModel, PreTrainedModel
from transformers.models.gemma3n import Gemma3nVisionConfig

from ft_assets.settings.catalogue.families import KNOWN
from ft_assets.workers.packs.isolation.architectures import auto_class
from tests.fake_base import VOCABULARY
from tests.workers.training.conftest import Bench, make_bench, publish

_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_MOE = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_ROUTED = {**_MOE, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1}
_LATENT = {
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 16,
}
_GROUPS = {"n_group": 1, "topk_group": 1}
_MAMBA = {
    "mamba_n_heads": 4,
    "mamba_d_head": 32,
    "mamba_n_groups": 1,
    "mamba_d_state": 8,
    "mamba_expand": 2,
    "mamba_d_conv": 4,
    "mamba_chunk_size": 8,
}
_DELTA = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}
_SLIDING = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 9}
_GEMMA_3N = {
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "num_hidden_layers": 4,
    "num_kv_shared_layers": 2,
    "vocab_size_per_layer_input": VOCABULARY,
    "hidden_size_per_layer_input": 8,
    "intermediate_size": [64] * 4,
    "activation_sparsity_pattern": [0.0] * 4,
    "altup_num_inputs": 2,
    "laurel_rank": 8,
    "sliding_window": 9,
}
_GEMMA_4 = {
    **_SLIDING,
    "vocab_size_per_layer_input": VOCABULARY,
    "hidden_size_per_layer_input": 8,
    "global_head_dim": 16,
}
_CHUNKED = {
    **_MOE,
    "intermediate_size_mlp": 64,
    "attention_chunk_size": 16,
    "layer_types": ["chunked_attention", "full_attention"],
    "interleave_moe_layer_step": 2,
    "no_rope_layers": [1, 0],
}
_VISION = {
    **dict.fromkeys(("hidden_size", "embed_dim", "intermediate_size"), 32),
    **{"depth": 1, "num_hidden_layers": 1, "num_heads": 2, "num_attention_heads": 2, "head_dim": 16},
    **{"image_size": 28, "patch_size": 14},
}
_TURNS = {"rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}}
_HALF_TURNS = {
    "rope_parameters": {**_TURNS["rope_parameters"], "mrope_section": [1, 1, 2], "partial_rotary_factor": 0.5}
}
_HEARING = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
_HEARING_3N = {"hidden_size": 32, "conf_num_attention_heads": 2, "conf_num_hidden_layers": 1}


class Tower(PreTrainedModel):
    """In place of Gemma 3n's vision tower, which needs the package timm. Text does not pass it."""

    config_class = Gemma3nVisionConfig

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.stem = torch.nn.Linear(config.hidden_size, config.hidden_size)
        self.post_init()


AutoModel.register(Gemma3nVisionConfig, Tower, exist_ok=True)


@dataclass(frozen=True, kw_only=True)
class Family:
    """``kind`` is the config's ``model_type``, ``settings`` what it needs at tiny size."""

    kind: str
    settings: dict[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, Any] = field(default_factory=lambda: _SIZES)
    """What it gets of these, by the names that it has."""

    @property
    def mode(self) -> str:
        return "apart" if KNOWN[self.kind] else "packed"

    def config(self) -> Any:
        known = CONFIG_MAPPING[self.kind]
        # A config modifies the dicts that it gets.
        settings = deepcopy(self.settings)
        if isinstance(settings.get("text_config"), dict):
            return known(**settings)
        default = known()
        names = {*default.to_dict(), *default.attribute_map}
        return known(**{name: size for name, size in self.sizes.items() if name in names} | settings)

    def model(self, **loading: Any) -> Any:
        """The model with weights that make every token matter."""
        torch.manual_seed(0)
        model: Any = auto_class(self.kind).from_config(self.config(), dtype=torch.float32, **loading)
        return model


def _family(kind: str, **settings: Any) -> Family:
    return Family(kind=kind, settings=settings)


def _composite(kind: str, text: dict[str, Any], *, audio: dict[str, Any] | None = None, **vision: Any) -> Family:
    """A family with a vision part, and an audio part if there are settings of it; its config is made of settings of
    each part."""
    known = CONFIG_MAPPING[kind]
    seen = known.sub_configs_defaults["vision_config"].default_config
    sizes = {name: size for name, size in _VISION.items() if name in seen.to_dict()} | vision
    parts = {"text_config": {**_SIZES, **text}, "vision_config": {"model_type": seen.model_type, **sizes}}
    if audio is not None:
        heard = known.sub_configs_defaults["audio_config"].default_config
        parts["audio_config"] = {"model_type": heard.model_type, **audio}
    return _family(kind, **parts)


FAMILIES = {
    family.kind: family
    for family in (
        _family("llama"),
        _family("mistral", sliding_window=9),
        _family("ministral"),
        _family("ministral3"),
        _family("mixtral", **_MOE),
        _family("qwen2"),
        _family("qwen2_moe", **_MOE, shared_expert_intermediate_size=32),
        _family("qwen3"),
        _family("qwen3_moe", **_MOE),
        _family("gemma"),
        _family("gemma3_text", **_SLIDING),
        _family("gemma4_text", **_GEMMA_4),
        _family("phi"),
        _family("phi3"),
        _family("phimoe", **_MOE, input_jitter_noise=0.0, router_jitter_noise=0.0),
        _family("deepseek_v2", **_ROUTED, **_LATENT, **_GROUPS),
        _family("deepseek_v3", **_ROUTED, **_LATENT, **_GROUPS),
        _family("glm"),
        _family("glm4"),
        _family("deepseek_v32", **_ROUTED, **_LATENT, **_GROUPS, index_n_heads=8, index_head_dim=16, index_topk=8),
        _family("glm4_moe", **_ROUTED, **_GROUPS),
        _family("glm4_moe_lite", **_ROUTED, **_LATENT, **_GROUPS),
        _family("granite"),
        _family("granitemoe", **_MOE),
        _family("granitemoeshared", **_MOE, shared_intermediate_size=32),
        _family("internlm3"),
        _family("olmo"),
        _family("olmo2"),
        _family("olmo3", **_SLIDING),
        _family("olmoe", **_MOE),
        _family("smollm3"),
        _family("cohere"),
        _family("cohere2", **_SLIDING),
        _family("cohere2_moe", **_MOE, **_SLIDING, num_shared_experts=1, first_k_dense_replace=1),
        _family("nemotron"),
        _family("hunyuan_v1_dense"),
        _family("hunyuan_v1_moe", **_MOE, moe_topk=2),
        _family("ernie4_5"),
        _family("ernie4_5_moe", moe_num_experts=4, moe_k=2, moe_num_shared_experts=1, moe_intermediate_size=32),
        _family("seed_oss", attention_dropout=0.0, residual_dropout=0.0),
        _family("apertus"),
        _family("arcee"),
        _family("exaone4"),
        _family("dots1", **_ROUTED, **_GROUPS),
        _family("minimax_m2", **_MOE),
        _family("starcoder2"),
        _family("gpt_neox"),
        _family("gpt2", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
        _family("gemma2", **_SLIDING),
        _family("gemma3n_text", **_GEMMA_3N),
        _family("llama4_text", **_CHUNKED),
        _family("gpt_oss", **_MOE, **_SLIDING),
        _family("qwen3_next", **_MOE, **_DELTA, shared_expert_intermediate_size=32),
        _family("qwen3_5_text", **_DELTA),
        _family("qwen3_5_moe_text", **_MOE, **_DELTA, shared_expert_intermediate_size=32),
        _family(
            "kimi_linear",
            **_ROUTED,
            **_LATENT,
            layer_types=_DELTA["layer_types"],
            linear_num_heads=2,
            linear_head_dim=16,
        ),
        _family("granitemoehybrid", **_MAMBA, **_MOE, layer_types=["mamba", "attention"]),
        _family("bamba", **_MAMBA, attn_layer_indices=[1]),
        _family("falcon_h1", **_MAMBA, mamba_d_ssm=128),
        _family("lfm2", layer_types=["conv", "full_attention"]),
        _family("lfm2_moe", **_MOE, layer_types=["conv", "full_attention"], num_dense_layers=1),
        _family(
            "nemotron_h",
            layers_block_type=["mamba", "attention"],
            mamba_num_heads=4,
            mamba_head_dim=32,
            n_groups=1,
            ssm_state_size=8,
            chunk_size=8,
        ),
        _family(
            "jamba",
            attn_layer_period=2,
            attn_layer_offset=1,
            expert_layer_period=2,
            expert_layer_offset=1,
            num_experts=2,
            num_experts_per_tok=1,
            mamba_d_state=8,
            mamba_dt_rank=4,
        ),
        _family(
            "zamba2",
            layers_block_type=["mamba", "hybrid"],
            hybrid_layer_ids=[1],
            mamba_d_state=8,
            n_mamba_heads=4,
            mamba_headdim=32,
            mamba_expand=2,
            mamba_ngroups=1,
            num_mem_blocks=1,
            adapter_rank=8,
            chunk_size=8,
            attention_hidden_size=128,
            attention_head_dim=32,
        ),
        _family("minimax", **_MOE, layer_types=_DELTA["layer_types"], block_size=8),
        _family("mamba", state_size=8),
        _family("mamba2", state_size=8, num_heads=4, head_dim=32, n_groups=1, chunk_size=8),
        _family("falcon_mamba", state_size=8),
        _family("falcon", new_decoder_architecture=True, num_kv_heads=2),
        _family("bloom"),
        _family("mpt", d_model=64, n_heads=4, n_layers=2, max_seq_len=256),
        _family("stablelm"),
        _composite("gemma3", _SLIDING),
        _composite("gemma3n", _GEMMA_3N, audio=_HEARING_3N),
        _composite(
            "gemma4", {**_GEMMA_4, "use_bidirectional_attention": "vision"}, audio=_HEARING, num_key_value_heads=2
        ),
        _composite("glm4v", _TURNS, out_hidden_size=64),
        _composite("glm4v_moe", {**_ROUTED, **_GROUPS, **_HALF_TURNS}, out_hidden_size=64),
        _composite("internvl", {"model_type": "qwen2"}, image_size=[28, 28], patch_size=[14, 14]),
        _composite("llava", {"model_type": "llama"}, projection_dim=32),
        _composite("mistral3", {"model_type": "ministral3"}),
        _composite(
            "mllama",
            {
                "num_hidden_layers": 3,
                "cross_attention_layers": [1],
                "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
            },
            attention_heads=2,
            num_global_layers=1,
            vision_output_dim=64,
            intermediate_layers_indices=[0],
        ),
        _composite("qwen2_vl", _TURNS, hidden_size=64),
        _composite("qwen2_5_vl", _TURNS, out_hidden_size=64),
        _composite("qwen3_vl", _TURNS, out_hidden_size=64, deepstack_visual_indexes=[0]),
        _composite("qwen3_vl_moe", {**_MOE, **_TURNS}, out_hidden_size=64, deepstack_visual_indexes=[0]),
        _composite("qwen3_5", {**_TURNS, **_DELTA}, out_hidden_size=64),
        _composite(
            "qwen3_5_moe", {**_MOE, **_TURNS, **_DELTA, "shared_expert_intermediate_size": 32}, out_hidden_size=64
        ),
        _composite(
            "llama4",
            _CHUNKED,
            **dict.fromkeys(("vision_output_dim", "projector_input_dim", "projector_output_dim"), 32),
        ),
    )
}


def family_bench(root: Path, family: Family, **settings: Any) -> Bench:
    """A training of three steps on a base of this family."""
    bench = make_bench(root, documents=36, dropout=0.0, max_steps=3, **settings)
    folder = root / "family"
    shutil.copytree(root / "base", folder, ignore=shutil.ignore_patterns("model.safetensors", "config.json"))
    family.model().save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    assert config["model_type"] == family.kind
    bench.inputs["base"] = publish(bench.store, folder, "base_model", "shared", {"source": f"hub:acme/{family.kind}"})
    return bench
