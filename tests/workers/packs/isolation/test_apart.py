"""Documents apart lose what each loses alone, and the choice is what the catalogue of families says."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from ft_assets.settings.catalogue.families import how_documents_run
from ft_assets.workers.packs.format import Window
from ft_assets.workers.packs.isolation.batches import MicroBatch, as_row
from ft_assets.workers.packs.isolation.choice import choose
from ft_assets.workers.packs.isolation.forward import run_apart, runs_apart, token_losses
from ft_assets.workers.packs.isolation.leak_check import require_causal
from ft_resources.errors import BadBase
from tests.workers.training.families import FAMILIES, Family

TEN = ["llama", "qwen3", "gemma3_text", "phi3", "mixtral", "deepseek_v3", "gpt_oss", "qwen3_next", "lfm2", "gemma2"]
LENGTHS = np.array([13, 29, 17, 2, 28, 40])


def documents() -> MicroBatch:
    random = np.random.default_rng(0)
    tokens = int(LENGTHS.sum())
    return as_row(
        Window(
            input_ids=random.integers(5, 280, tokens).astype(np.int32),
            learned=random.random(tokens) < 0.7,
            document_lengths=LENGTHS,
            examples=np.arange(len(LENGTHS)),
            pieces=np.zeros(len(LENGTHS), np.int32),
        )
    )


@pytest.mark.parametrize("kind", TEN)
@torch.no_grad()
def test_documents_apart_lose_what_each_loses_alone(kind: str, tmp_path: Path) -> None:
    family, batch = FAMILIES[kind], documents()
    family.config().save_pretrained(tmp_path)
    choice = choose(tmp_path, "apart")
    model = family.model(**choice.loading).eval()
    run_apart(model)
    assert runs_apart(torch.nn.Sequential(model))
    expected = []
    for start, end in zip(batch.boundaries[:-1].tolist(), batch.boundaries[1:].tolist(), strict=True):
        ids = batch.input_ids[:, start:end]
        mine = (batch.sources >= start) & (batch.sources < end)
        logits = model(input_ids=ids).logits[0, batch.sources[mine] - start].float()
        expected.append(cross_entropy(logits, batch.targets[mine], reduction="none"))
    torch.testing.assert_close(token_losses(model, batch), torch.cat(expected), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_rotary_positions_that_grow_with_a_batch_are_those_of_each_document_alone() -> None:
    batch = documents()
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
    family = Family(kind="llama", settings={"max_position_embeddings": 20, "rope_parameters": rope})
    model = family.model().eval()
    run_apart(model)
    expected = []
    for number in range(batch.documents):
        fresh = family.model().eval()
        run_apart(fresh)
        expected.append(token_losses(fresh, batch.every(number, batch.documents)))
    for _ in range(2):
        torch.testing.assert_close(token_losses(model, batch), torch.cat(expected), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", TEN)
def test_the_catalogue_says_what_is_chosen(kind: str, tmp_path: Path) -> None:
    family = FAMILIES[kind]
    family.config().save_pretrained(tmp_path)
    choice = choose(tmp_path)
    assert choice.mode == family.mode
    mode, why = how_documents_run((tmp_path / "config.json").read_bytes())
    assert mode == choice.mode
    assert bool(why) == (mode == "apart")


def test_of_a_family_that_is_not_known_it_says_that_it_will_be_decided_and_how() -> None:
    mode, why = how_documents_run(json.dumps({"model_type": "of_tomorrow"}).encode())
    assert (mode, why.partition(":")[0]) == ("decided when it trains", "by a trial at tiny size")
    assert "of_tomorrow is not among" in why
    pictures = {"model_type": "of_pictures", "text_config": {"model_type": "mamba2"}}
    assert how_documents_run(json.dumps(pictures).encode())[0] == "apart"
    assert how_documents_run(None) == how_documents_run(b"[]") == how_documents_run(b"{") == ("", "")


@pytest.mark.parametrize(
    ("config", "mode", "why"),
    [
        ({"model_type": "qwen3_next"}, "decided when it trains", "linear attention: packed if the kernels"),
        ({"model_type": "mamba2"}, "decided when it trains", "state-space layers: packed if the kernels"),
        ({"model_type": "gpt_oss"}, "decided when it trains", "attention sinks: packed if a fused function"),
        ({"model_type": "gemma2"}, "decided when it trains", "softcap: packed if a fused function"),
        ({"model_type": "gemma2", "attn_logit_softcapping": None}, "packed", ""),
        ({"model_type": "mamba"}, "apart", "state-space layers"),
        ({"model_type": "llama"}, "packed", ""),
    ],
)
def test_on_a_gpu_what_depends_on_its_kernels_is_decided_there(config: dict[str, Any], mode: str, why: str) -> None:
    found = how_documents_run(json.dumps(config).encode(), gpus=1)
    assert found[0] == mode
    assert why in found[1]


@pytest.mark.parametrize(("kind", "settings"), [("big_bird", {"attention_type": "original_full"}), ("roformer", {})])
def test_a_model_that_looks_ahead_by_attention_of_its_own_is_refused_before_it_trains(
    kind: str, settings: dict[str, str]
) -> None:
    def made(**others: bool) -> Any:
        sizes = {"vocab_size": 280, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1}
        values: dict[str, Any] = {**sizes, "num_attention_heads": 4, **settings, **others}
        config = CONFIG_MAPPING[kind](**values)
        model = AutoModelForCausalLM.from_config(config)
        for weight in model.parameters():
            # As drawn they are so small that no token matters to another.
            weight.data *= 10
        run_apart(model)
        return model

    with pytest.raises(BadBase, match="looks ahead"):
        require_causal(made(), documents())
    require_causal(made(is_decoder=True), documents())
