"""Tiny random models of architectures that no test trains: how their documents run is tried, and what they lose."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from ft_assets.settings.catalogue.refused import ENCODERS
from ft_assets.workers.packs.format import Window
from ft_assets.workers.packs.isolation.batches import MicroBatch, as_row
from ft_assets.workers.packs.isolation.choice import choose
from ft_assets.workers.packs.isolation.leak_check import require_causal
from ft_resources.errors import BadBase
from tests.workers.training.families import (
    _DELTA,
    _GROUPS,
    _LATENT,
    _MOE,
    _ROUTED,
    _SIZES,
    _SLIDING,
    _TURNS,
    Family,
    _composite,
)

_ALL = {**_SIZES, **_ROUTED, **_LATENT, **_GROUPS, "num_key_value_heads": 2, "num_shared_experts": 1}
_CONVOLUTION = {"layer_types": ["conv", "full_attention"]}
_INDEXED = {"num_key_value_heads": 4, "index_n_heads": 8, "index_head_dim": 16, "index_topk": 8}
_LATENT_HEADS = {"num_key_value_heads": 4}
_QWEN_4 = {
    "layer_types": ["linear_attention", "indexed_attention"],
    **{name: value for name, value in _DELTA.items() if name != "layer_types"},
    "shared_expert_intermediate_size": 32,
    **_MOE,
    **{"indexer_n_heads": 8, "indexer_kv_heads": 1, "indexer_head_dim": 16},
    **{"indexer_budget": 8, "indexer_compress_ratio": 1},
    **{"hc_lowrank": 8, "ple_embed_dim": 16, "ngram_vocab_size_base": 64, "split_ngram_parts": 1},
}
_LINEAR = {"layer_types": _DELTA["layer_types"]}
_LLAMA = {"model_type": "llama"}
_PLAIN = """
    afmoe aria_text beam biogpt bitnet cwm deepseek_v4 diffllama doge exaone_moe flex_olmo flint gemma4_unified_text
    gpt-sw3 gpt_bigcode gpt_neox_japanese granite_swa granitemoe_swa helium hrm_text hy_v3 hy_v4 hyperclovax
    inkling2_text inkling_text iquestcoder jais2 jetmoe kolibri1 laguna mellum mimo_v2_flash minimax_m3_vl_text
    modernbert-decoder nanochat olmo_hybrid openai-gpt persimmon rwkv solar_open vaultgemma
"""


def _placed(kind: str, **settings: Any) -> Family:
    """``config`` with tiny sizes, by the names that its architecture has for them."""
    return Family(kind=kind, settings=settings, sizes=_ALL)


PLACED = {
    family.kind: family
    for family in (
        *map(_placed, _PLAIN.split()),
        _placed("axk1", **_LATENT_HEADS),
        _placed("axk2", **_INDEXED),
        _placed(
            "bailing_hybrid",
            **_LINEAR,
            num_key_value_heads=4,
            num_expert_group=1,
            linear_head_dim=16,
            linear_num_heads=2,
        ),
        _placed("codegen", rotary_dim=16),
        _placed("ctrl", n_positions=256, dff=64),
        _placed(
            "dbrx",
            d_model=64,
            n_heads=4,
            n_layers=2,
            max_seq_len=256,
            attn_config={"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 10000.0},
            ffn_config={"ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 2},
        ),
        _placed("glm_moe_dsa", **_INDEXED),
        _placed("gpt_neo", attention_types=[[["global", "local"], 1]], window_size=9, resid_dropout=0.0),
        _placed("gptj", rotary_dim=16),
        _placed("lfm3", **_CONVOLUTION),
        _placed(
            "longcat_flash",
            **_LATENT_HEADS,
            num_layers=1,
            ffn_hidden_size=64,
            expert_ffn_hidden_size=32,
            zero_expert_num=1,
            moe_topk=2,
            n_routed_experts=4,
        ),
        _placed("minicpm3", **_LATENT_HEADS),
        _placed("moshi", ffn_dim=64, audio_encoder_config={"hidden_size": 32}),
        _placed("opt", ffn_dim=64),
        _placed("qwen4_exp_text", **_QWEN_4),
        _placed(
            "reformer",
            is_decoder=True,
            axial_pos_embds=False,
            attention_head_size=16,
            feed_forward_size=64,
            attn_layers=["local", "lsh"],
            num_buckets=4,
        ),
        _placed("recurrent_gemma", block_types=["recurrent", "attention"], lru_width=64),
        _placed("trocr", d_model=64, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=64),
        _placed("xglm", ffn_dim=64),
        _placed("xlstm", num_heads=4, qk_dim_factor=1.0),
        _placed("youtu", **_LATENT_HEADS),
        _placed(
            "zamba",
            num_hidden_layers=4,
            layers_block_type=["linear_attention", "hybrid"] * 2,
            attention_hidden_size=128,
            attention_head_dim=32,
            mamba_d_state=8,
            mamba_dt_rank=4,
        ),
        _placed("zaya", router_hidden_size=16, num_experts_per_tok=1),
        _composite("aya_vision", {"model_type": "cohere2", **_SLIDING}),
        _composite("cohere2_vision", {"model_type": "cohere2", **_SLIDING}),
        _placed(
            "cohere_compass_text",
            layer_types=["full_attention"] * 2,
            rope_parameters={
                "full_attention": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [3, 3, 2]}
            },
        ),
        _placed("dots3_note_text", num_key_value_heads=4),
        _placed("fuyu", text_config={**_SIZES, "model_type": "persimmon"}),
        _composite("got_ocr2", {"model_type": "qwen2"}, output_channels=32, mlp_dim=32),
        _composite("qwen4_exp", {**_QWEN_4, **_TURNS}, out_hidden_size=64),
        _composite("glm46v", _TURNS, out_hidden_size=64),
        _composite("idefics3", _LLAMA),
        _composite("kimi_k25", {"model_type": "deepseek_v3", **_ROUTED, **_LATENT, **_GROUPS}),
        _composite("lfm2_vl", {"model_type": "lfm2", **_CONVOLUTION}),
        _composite("llava_next", _LLAMA, projection_dim=32),
        _composite("llava_onevision", {"model_type": "qwen2"}),
        _composite("smolvlm", _LLAMA),
    )
}

LENGTHS = np.array([13, 29, 17, 2, 28])


def documents() -> MicroBatch:
    random, tokens = np.random.default_rng(0), int(LENGTHS.sum())
    return as_row(
        Window(
            input_ids=random.integers(5, 280, tokens).astype(np.int32),
            learned=random.random(tokens) < 0.7,
            document_lengths=LENGTHS,
            examples=np.arange(len(LENGTHS)),
            pieces=np.zeros(len(LENGTHS), np.int32),
        )
    )


def losses_alone(model: Any, batch: MicroBatch) -> torch.Tensor:
    """The loss of each learned token, with a forward pass for each document."""
    found = []
    for start, end in pairwise(batch.boundaries.tolist()):
        mine = (batch.sources >= start) & (batch.sources < end)
        logits = model(input_ids=batch.input_ids[:, start:end]).logits[0, batch.sources[mine] - start].float()
        found.append(cross_entropy(logits, batch.targets[mine], reduction="none"))
    return torch.cat(found)


def sensitive(family: Family, **loading: Any) -> Any:
    """A model whose every token matters to later ones: as drawn, weights are so small that none does."""
    model = family.model(**loading).eval()
    for weight in model.parameters():
        weight.data *= 10 if weight.ndim > 1 else 1
    return model


_ENCODERS: dict[str, dict[str, Any]] = {
    "bert-generation": {},
    "xlm": {"emb_dim": 64, "n_layers": 2, "n_heads": 4},
    "xlnet": {"d_model": 64, "d_head": 16, "d_inner": 64},
    "xmod": {"default_language": "en_XX"},
    "cpmant": {"dim_head": 16, "dim_ff": 64},
}
"""What encoders need at tiny size besides the sizes of any architecture."""


def refusal(kind: str, folder: Path) -> BadBase | None:
    """The refusal of a base of this architecture, from its config or before it trains."""
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    try:
        if kind in ENCODERS:
            family = _placed(kind, **_ENCODERS.get(kind, {}))
            family.config().save_pretrained(folder)
        choice = choose(folder)
        model = sensitive(family, **choice.loading)
        choice.prepare(model)
        require_causal(model, documents())
    except BadBase as error:
        return error
    return None
