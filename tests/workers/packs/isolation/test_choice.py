"""Documents are packed where it is proved that they cannot see each other; the others run apart, and it says why."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AttentionInterface, AutoConfig

from ft_assets.workers.packs.isolation import attention
from ft_assets.workers.packs.isolation import choice as choices
from ft_assets.workers.packs.isolation.attention import ATTENTION
from ft_assets.workers.packs.isolation.choice import choose
from ft_assets.workers.packs.isolation.told import Arithmetic
from ft_resources.errors import BadBase
from tests.workers.packs.isolation.test_isolation import GROUPED, config_of

APART: dict[str, tuple[dict[str, Any], str]] = {
    "mamba": ({}, "linear_attention"),
    "rwkv": ({}, "computes its attention itself"),
    "jamba": ({}, "linear_attention"),
    "minimax": ({}, "linear_attention, which do not receive"),
    "qwen3_next": ({}, "without `causal_conv1d`"),
    "falcon_h1": ({}, "without `mamba_ssm`"),
    "lfm2": ({"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2}, "without `causal_conv1d`"),
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
    assert choice.loading == {}
    with pytest.raises(BadBase, match=reason) as caught:
        choose(tmp_path, "packed")
    assert "packing.mode" in caught.value.remedy


@pytest.mark.parametrize(("kind", "what"), [("gemma2", "a softcap"), ("gpt_oss", "sinks")])
def test_changed_scores_are_packed_on_a_cpu_and_on_a_gpu_where_a_fused_function_is_right(
    kind: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config_of(kind)))
    choice = choose(tmp_path)
    assert (choice.mode, choice.attention) == ("packed", ATTENTION)
    # Its own scores would all be in memory at once.
    assert choose(tmp_path, "apart").attention == ATTENTION
    gpu, asked = Arithmetic(device="cuda", weights=torch.bfloat16, half=torch.bfloat16), []

    def fused(*question: Any) -> Any:
        asked.append(question)
        return None

    monkeypatch.setattr(choices, "fused", fused)
    choice = choose(tmp_path, arithmetic=gpu)
    assert (choice.mode, choice.attention) == ("apart", ATTENTION)
    assert f"its attention has {what}, for which no fused function computes right on this device" in choice.why
    # It is right packed too, and only slower.
    assert choose(tmp_path, "packed", arithmetic=gpu).mode == "packed"
    monkeypatch.setattr(choices, "fused", lambda *_: print)
    assert choose(tmp_path, arithmetic=gpu).mode == "packed"
    values = AutoConfig.for_model(kind)
    heads = (values.num_attention_heads, values.num_key_value_heads, values.head_dim)
    assert asked == [(torch.device("cuda"), torch.bfloat16, heads, kind == "gemma2", kind == "gpt_oss")]


@pytest.mark.usefixtures("registered_again")
def test_an_attention_that_is_not_ours_runs_apart_by_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def another(*args: Any, softcap: float | None = None, **kwargs: Any) -> Any:
        return attention.document_attention(*args, **kwargs)

    (tmp_path / "config.json").write_text(json.dumps(config_of("gemma2")))
    AttentionInterface.register(ATTENTION, another)
    monkeypatch.setattr(choices, "register", lambda: None)
    monkeypatch.setattr("ft_assets.workers.packs.isolation.tiny.register", lambda: None)
    choices._try.cache_clear()
    choice = choose(tmp_path)
    assert (choice.mode, choice.attention) == ("apart", "eager")
    assert "our attention has other results than the architecture's own" in choice.why


def test_documents_that_could_be_packed_run_apart_where_the_recipe_says_so(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config_of("llama", **GROUPED)))
    assert choose(tmp_path).mode == choose(tmp_path, "packed").mode == "packed"
    assert choose(tmp_path, "apart").mode == "apart"


@pytest.mark.parametrize(
    ("kind", "settings", "reason"),
    [
        ("t5", {}, "not a causal language model"),
        ("no_such_kind", {}, "does not include the architecture"),
        ("gemma3_text", {"use_bidirectional_attention": True}, "looks ahead"),
        # Encoders that load as causal models.
        *((kind, {}, "looks ahead") for kind in ("bert", "roberta", "electra")),
    ],
)
def test_what_is_not_a_causal_language_model_is_refused_either_way(
    kind: str, settings: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config_of(kind, **settings)))
    for asked in ("auto", "packed", "apart"):
        with pytest.raises(BadBase, match=reason):
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
