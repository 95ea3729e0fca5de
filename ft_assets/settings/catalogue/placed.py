"""Architectures for which the tests check how documents run, and that each document's loss is the same as alone,
without training them."""

from collections.abc import Mapping
from types import MappingProxyType

_KINDS = {
    "": (
        "afmoe aria_text axk1 aya_vision beam biogpt bitnet cohere2_vision cohere_compass_text ctrl cwm dbrx diffllama "
        "exaone_moe flex_olmo flint fuyu gemma4_unified_text glm46v gpt-sw3 gpt_bigcode granite_swa "
        "granitemoe_swa helium hrm_text hy_v3 hyperclovax idefics3 iquestcoder jais2 jetmoe kimi_k25 kolibri1 laguna "
        "llava_next llava_onevision longcat_flash mellum mimo_v2_flash minicpm3 minimax_m3_vl_text modernbert-decoder "
        "moshi nanochat opt persimmon smolvlm solar_open vaultgemma youtu"
    ),
    "attention of its own": (
        "codegen doge got_ocr2 gpt_neo gpt_neox_japanese gptj openai-gpt reformer trocr xglm inkling2_text inkling_text"
    ),
    "attention to chosen tokens of the row": (
        "axk2 deepseek_v4 dots3_note_text glm_moe_dsa hy_v4 qwen4_exp qwen4_exp_text"
    ),
    "linear attention": "bailing_hybrid olmo_hybrid",
    "recurrent layers": "recurrent_gemma rwkv xlstm",
    "short convolutions": "lfm2_vl lfm3 zaya",
    "state-space layers": "zamba",
}
PLACED: Mapping[str, str] = MappingProxyType({kind: why for why, kinds in _KINDS.items() for kind in kinds.split()})
"""As ``FAMILIES``."""
