"""Documents are packed where it is proved that they cannot see each other; the others run apart, and it says why."""

import json
from pathlib import Path
from typing import Any

import pytest

from ft_assets.workers.packs.isolation.choice import choose
from ft_resources.errors import BadBase
from tests.workers.packs.isolation.test_isolation import GROUPED, config_of

APART: dict[str, tuple[dict[str, Any], str]] = {
    "gemma2": ({}, "softcap"),
    "gpt_oss": ({}, "attention sinks"),
    "mamba": ({}, "linear_attention"),
    "rwkv": ({}, "recurrent"),
    "jamba": ({}, "linear_attention"),
    "qwen3_next": ({}, "linear_attention"),
    "falcon_h1": ({}, "hybrid"),
    "lfm2": ({"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2}, "conv"),
    "bloom": ({}, "computes its attention itself"),
    "falcon": ({"alibi": True}, "ALiBi"),
    "llama4_text": ({}, "chunked"),
    "deepseek_v32": ({}, "indexed_attention"),
    "stablelm": ({}, "does not hand the documents' boundaries on"),
}


@pytest.mark.parametrize("kind", APART)
def test_documents_of_an_architecture_that_would_leak_run_apart_and_it_says_why(kind: str, tmp_path: Path) -> None:
    settings, reason = APART[kind]
    (tmp_path / "config.json").write_text(json.dumps(config_of(kind, **settings)))
    choice = choose(tmp_path)
    assert choice.mode == "apart"
    assert reason in choice.why
    assert choice.loading == ({"attn_implementation": "eager"} if kind == "gemma2" else {})
    with pytest.raises(BadBase, match=reason) as caught:
        choose(tmp_path, "packed")
    assert "packing.mode" in caught.value.remedy


def test_documents_that_could_be_packed_run_apart_where_the_recipe_says_so(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config_of("llama", **GROUPED)))
    assert choose(tmp_path).mode == choose(tmp_path, "packed").mode == "packed"
    assert choose(tmp_path, "apart").mode == "apart"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("t5", "not a causal language model"),
        ("no_such_kind", "not one that this version"),
        ("gemma3_text", "looks ahead"),
    ],
)
def test_what_is_not_a_causal_language_model_is_refused_either_way(kind: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config_of(kind, use_bidirectional_attention=True)))
    for asked in ("auto", "packed", "apart"):
        with pytest.raises(BadBase, match=reason):
            choose(tmp_path, asked)


@pytest.mark.parametrize("kind", ["bert", "roberta", "electra"])
def test_an_encoder_that_loads_as_a_causal_model_is_refused_either_way(kind: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config_of(kind)))
    for asked in ("auto", "packed", "apart"):
        with pytest.raises(BadBase, match="looks ahead"):
            choose(tmp_path, asked)


def test_a_model_in_which_only_pictures_look_ahead_is_not_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config_of("gemma4_text", use_bidirectional_attention="vision")))
    assert choose(tmp_path).mode == "packed"
    (tmp_path / "config.json").write_text(json.dumps(config_of("gemma4_text", use_bidirectional_attention="all")))
    with pytest.raises(BadBase, match="looks ahead"):
        choose(tmp_path)


def test_documents_of_an_architecture_whose_trial_fails_run_apart(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config_of("doge")))
    choice = choose(tmp_path)
    assert choice.mode == "apart"
    assert "packed rows fail in a trial" in choice.why
