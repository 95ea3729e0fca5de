"""Merged weights are base and adapter together, for every way in which a base may be stored."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from ft_assets.workers.base_models.merge import CONFIG, WEIGHTS, merge_adapter
from ft_assets.workers.base_models.tensors import decoded, encoded
from ft_resources.canonical import sha256_file
from ft_resources.errors import BadBase

SIZES = {"vocab_size": 60, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}


def made(
    folder: Path, family: str, dtype: torch.dtype, targets: Any = "all-linear", *, dora: bool = False, **config: Any
) -> tuple[Path, Path]:
    """A base in several files and an adapter on it whose updates are as large as its weights."""
    torch.manual_seed(1)
    if family == "gpt2":
        model: Any = GPT2LMHeadModel(GPT2Config(vocab_size=60, n_embd=16, n_layer=2, n_head=2, n_positions=32))
    else:
        model = LlamaForCausalLM(LlamaConfig(**SIZES, **config))
    base, adapter = folder / "base", folder / "adapter"
    model.to(dtype).save_pretrained(base, max_shard_size="8KB")
    tuned: Any = get_peft_model(model.float(), LoraConfig(r=3, lora_alpha=5, target_modules=targets, use_dora=dora))
    for name, parameter in tuned.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, mean=float("magnitude" in name), std=0.2)
    tuned.save_pretrained(adapter, save_embedding_layers=False)
    return base, adapter


def merge(base: Path, adapter: Path, target: Path, **changes: Any) -> Path:
    shutil.copytree(base, target)
    config = json.loads((adapter / CONFIG).read_bytes()) | changes
    merge_adapter(config, adapter / WEIGHTS, sorted(target.glob("*.safetensors")), tied=False)
    return target


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        answer: torch.Tensor = model(torch.arange(12)[None]).logits
    return answer


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return {name: value for path in sorted(folder.glob("*.safetensors")) for name, value in load_file(path).items()}


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("dora", [False, True])
def test_the_merged_model_answers_as_base_and_adapter(tmp_path: Path, family: str, dora: bool) -> None:
    base, adapter = made(tmp_path, family, torch.float32, dora=dora)
    merged = merge(base, adapter, tmp_path / "merged")
    plain = AutoModelForCausalLM.from_pretrained(base)
    alone = logits(plain)
    both = logits(PeftModel.from_pretrained(plain, adapter))
    assert torch.allclose(logits(AutoModelForCausalLM.from_pretrained(merged)), both, atol=1e-5)
    assert not torch.allclose(alone, both, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_are_the_sum_rounded_once_to_what_the_base_is_stored_in(tmp_path: Path, dtype: torch.dtype) -> None:
    base, adapter = made(tmp_path, "llama", dtype)
    merged, updates, before = (
        weights(merge(base, adapter, tmp_path / "merged")),
        load_file(adapter / WEIGHTS),
        weights(base),
    )
    changed = 0
    for name, value in merged.items():
        part = f"base_model.model.{name.removesuffix('.weight')}.lora_"
        if f"{part}A.weight" not in updates:
            assert torch.equal(value, before[name])
            continue
        changed += 1
        update = updates[f"{part}B.weight"].double() @ updates[f"{part}A.weight"].double() * (5 / 3)
        assert torch.equal(value, (before[name].double() + update).float().to(dtype))
    assert changed == 14


def test_merging_again_gives_equal_bytes_and_leaves_the_base_as_it_was(tmp_path: Path) -> None:
    base, adapter = made(tmp_path, "llama", torch.bfloat16)
    before = {path.name: sha256_file(path) for path in base.iterdir()}
    merged = [merge(base, adapter, tmp_path / name) for name in ("one", "two")]
    one, two = ({path.name: sha256_file(path) for path in folder.iterdir()} for folder in merged)
    assert one == two
    assert {path.name: sha256_file(path) for path in base.iterdir()} == before


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"lora_bias": True}, "not a plain LoRA"),
        ({"use_dora": True}, "is not of rank 3"),
        ({"bias": "all"}, "not a plain LoRA"),
        ({"peft_type": "IA3"}, "not a plain LoRA"),
        ({"r": 4}, "is not of rank 4"),
    ],
)
def test_another_kind_of_adapter_is_refused(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    base, adapter = made(tmp_path, "llama", torch.float32)
    with pytest.raises(BadBase, match=reason):
        merge(base, adapter, tmp_path / "merged", **changes)


def test_an_adapter_on_a_head_that_is_the_embedding_is_refused(tmp_path: Path) -> None:
    base, adapter = made(tmp_path, "llama", torch.float32, ["lm_head"])
    with pytest.raises(BadBase, match="lm_head, which is the embedding too"):
        merge_adapter(
            json.loads((adapter / CONFIG).read_bytes()),
            adapter / WEIGHTS,
            sorted(base.glob("*.safetensors")),
            tied=True,
        )


def test_an_adapter_on_the_embedding_is_refused(tmp_path: Path) -> None:
    base, adapter = made(tmp_path, "llama", torch.float32, ["embed_tokens"])
    with pytest.raises(BadBase, match="not an update of a linear layer"):
        merge(base, adapter, tmp_path / "merged")


def test_an_adapter_of_another_model_is_refused(tmp_path: Path) -> None:
    _, adapter = made(tmp_path / "a", "llama", torch.float32)
    wider, _ = made(tmp_path / "b", "llama", torch.float32, num_key_value_heads=1)
    with pytest.raises(BadBase, match=r"update of model.layers.0.self_attn.k_proj.weight is 16 × 16, and .* 8 × 16"):
        merge(wider, adapter, tmp_path / "merged")
    other, _ = made(tmp_path / "c", "gpt2", torch.float32)
    with pytest.raises(BadBase, match=r"the base's files have no model\.layers\.0"):
        merge(other, adapter, tmp_path / "merged-2")


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=20))
def test_bfloat16_is_rounded_as_torch_rounds_it(values: list[float]) -> None:
    exact = torch.tensor(values, dtype=torch.float32)
    ours = encoded(exact.double().numpy(), "BF16", "w")
    assert ours.tolist() == exact.bfloat16().view(torch.uint16).tolist()
    assert decoded(ours, "BF16").tolist() == exact.bfloat16().double().tolist()


def test_what_is_too_large_for_the_stored_numbers_is_refused() -> None:
    with pytest.raises(BadBase, match="not be finite in F16"):
        encoded(torch.tensor([1.0, 7e4]).double().numpy(), "F16", "w")
    with pytest.raises(BadBase, match="not be finite in F32"):
        encoded(torch.tensor([float("nan")]).double().numpy(), "F32", "w")
