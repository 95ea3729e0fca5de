"""Formats by llm-compressor: calibrated on the train split, loaded as any engine loads them, and measured."""

import json
import stat
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from transformers import AutoTokenizer

from ft_assets.settings.catalogue.exports import EXPORTS
from ft_assets.settings.catalogue.exports.compressed import LLM_COMPRESSOR as TOOL
from ft_assets.workers.evals.holdout_rows import read_records
from ft_assets.workers.evals.model import load_model
from ft_assets.workers.exports import calibration, compressed
from ft_assets.workers.exports.calibration import calibration_rows
from ft_assets.workers.exports.quantized import quantize_model
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.environment import LLM_COMPRESSOR
from ft_resources.errors import BadBase, Misconfigured
from tests.workers.evals.world import World
from tests.workers.exports.made import OWN_TEMPLATE, Made
from tests.workers.exports.test_gguf import files_of, quantized

pytestmark = pytest.mark.training
CARDS = {"gptq-w8a8": "GPTQ W8A8", "gptq-w4a16": "GPTQ W4A16", "awq-w4a16": "AWQ W4A16", "fp8-dynamic": "FP8_DYNAMIC"}
NOT_CALIBRATED = "fp8-dynamic"


@pytest.mark.llm_compressor
@pytest.mark.parametrize("name", CARDS)
def test_a_model_is_quantised_with_its_tokenizer_and_its_bytes_are_the_same_each_time(world: World, name: str) -> None:
    made = Made.make(world, wide=True, dtype="bfloat16")
    request = quantized(made, name)
    result = quantize_model(world.context(request))
    assert (result.facts["format"], result.facts["calibrated_on"]) == (name, 0 if name == NOT_CALIBRATED else 40)
    assert 0 < result.facts["changed"]["kl"] < 0.05
    config = json.loads((result.folder / "config.json").read_bytes())
    assert config["quantization_config"]["quant_method"] == "compressed-tensors"
    assert config["quantization_config"]["ignore"] == ["lm_head"]
    files = files_of(result.folder)
    assert {"tokenizer.json", "chat_template.jinja", "LICENSE", "README.md", "generation_config.json"} <= set(files)
    assert AutoTokenizer.from_pretrained(result.folder).chat_template == OWN_TEMPLATE
    assert f"quantised by llm-compressor as {CARDS[name]}." in files["README.md"].decode()
    merged = world.artifacts.get(world.context(request).input("exported").address)
    assert len(files["model.safetensors"]) < merged.manifest.files["model.safetensors"].size
    assert files_of(quantize_model(world.context(request)).folder) == files


def test_calibration_sees_the_train_split_and_nothing_of_the_holdout(world: World) -> None:
    made = Made.make(world)
    context = world.context(quantized(made, "gptq-w8a8"))
    rows = calibration_rows(context)
    tokenizer = ChatTokenizer.load(context.folder("exported")).tokenizer
    seen = {tokenizer.decode(ids, skip_special_tokens=True) for ids in rows}
    texts = {
        split: {
            "".join(message["content"] for message in record["messages"])
            for record in read_records(made.dataset.path(f"{split}.parquet", world.folder))
        }
        for split in ("train", "validation", "holdout")
    }
    assert seen == texts["train"]
    assert not seen & (texts["holdout"] | texts["validation"])
    assert texts["holdout"]


def test_calibration_takes_a_part_of_many_rows_and_the_same_each_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "ROWS", 5)
    monkeypatch.setattr(calibration, "TOKENS", 9)
    request = quantized(Made.make(world), "gptq-w8a8")
    one, two = (calibration_rows(world.context(request)) for _ in range(2))
    assert one == two
    assert [len(row) for row in one] == [9] * 5


def test_without_llm_compressor_a_worker_says_what_is_missing_and_where(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    request = quantized(Made.make(world), "gptq-w4a16")
    monkeypatch.delenv(LLM_COMPRESSOR, raising=False)
    with pytest.raises(Misconfigured, match="this worker has no llm-compressor, which makes gptq-w4a16") as found:
        quantize_model(world.context(request))
    assert "gptq.md" in found.value.remedy
    monkeypatch.setenv(LLM_COMPRESSOR, str(tmp_path / "python"))
    with pytest.raises(Misconfigured, match=f"there is no program {tmp_path}/python"):
        quantize_model(world.context(request))
    monkeypatch.setenv(LLM_COMPRESSOR, "/bin/true")
    monkeypatch.setattr(compressed, "find_spec", lambda name: None)
    with pytest.raises(Misconfigured, match="the package compressed-tensors is not installed"):
        quantize_model(world.context(request))


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A program in the place of llm-compressor's Python."""
    monkeypatch.setattr(compressed, "find_spec", lambda name: object())
    program = folder / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv(LLM_COMPRESSOR, str(program))


def test_what_llm_compressor_says_of_a_model_reaches_the_person_and_no_key_reaches_it(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    request = quantized(Made.make(world), "gptq-w4a16")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    stand_in(tmp_path, monkeypatch, 'echo "no groups of 128 for $6; key: $AWS_SECRET_ACCESS_KEY." >&2; exit 1')
    with pytest.raises(BadBase, match=r"quantised as W4A16; llm-compressor said:\nno groups of 128 for W4A16; key: \."):
        quantize_model(world.context(request))


@pytest.mark.parametrize("name", CARDS)
def test_a_mixture_of_experts_is_refused_before_anything_is_quantised(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    request = quantized(Made.make(world, experts="mixtral", target_modules=["q_proj"]), name)
    stand_in(tmp_path, monkeypatch, f"touch {tmp_path}/begun; exit 1")
    with pytest.raises(BadBase, match="a mixture of experts is not quantised by llm-compressor here") as found:
        quantize_model(world.context(request))
    assert "merged, or as GGUF" in found.value.remedy
    assert not (tmp_path / "begun").exists()


@pytest.mark.llm_compressor
def test_what_enters_a_layer_is_rounded_to_8_bit_floats_for_each_token(world: World) -> None:
    request = quantized(Made.make(world, wide=True, dtype="bfloat16"), "fp8-dynamic")
    folder = quantize_model(world.context(request)).folder
    model = load_model(folder, device="cpu").model
    with torch.inference_mode():
        # Stored weights are unpacked by the first of all passes.
        model(torch.arange(8)[None])
    layer = model.model.layers[0].mlp.down_proj
    entering = torch.randn(1, 7, layer.in_features, generator=torch.Generator().manual_seed(0))
    with safe_open(folder / "model.safetensors", "pt") as file:
        weight, scale = (file.get_tensor(f"model.layers.0.mlp.down_proj.{name}") for name in ("weight", "weight_scale"))
    assert (weight.dtype, scale.shape) == (torch.float8_e4m3fn, (layer.out_features, 1))
    largest = entering.abs().amax(-1, keepdim=True) / torch.finfo(torch.float8_e4m3fn).max
    rounded = (entering / largest).to(torch.float8_e4m3fn).float() * largest
    with torch.inference_mode():
        found, expected = layer(entering), rounded @ (weight.float() * scale.float()).T
    assert torch.allclose(found, expected, atol=1e-5)
    assert not torch.allclose(found, entering @ (weight.float() * scale.float()).T, atol=1e-3)


def test_each_format_of_llm_compressor_is_here() -> None:
    made = [each.name for each in EXPORTS.values() if each.settings.get("tool") == TOOL]
    assert made == list(CARDS)
    # What was made when GPTQ was the only method is found by these settings.
    assert dict(EXPORTS["gptq-w8a8"].settings) == {"format": "gptq-w8a8", "tool": "llm-compressor", "kind": "W8A8"}
