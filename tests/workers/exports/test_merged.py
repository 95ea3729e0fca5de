"""A merged model is base and adapter as one; formats by llm-compressor are calibrated, loaded as any engine does."""

import json
import stat
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

from ft_assets.settings.catalogue.exports import EXPORTS
from ft_assets.settings.catalogue.exports.compressed import LLM_COMPRESSOR as TOOL
from ft_assets.workers.evals.holdout_rows import read_records
from ft_assets.workers.evals.model import load_model
from ft_assets.workers.exports import calibration, compressed, merged
from ft_assets.workers.exports.calibration import calibration_rows
from ft_assets.workers.exports.merged import merge_model
from ft_assets.workers.exports.quantized import quantize_model
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.artifacts import Artifact
from ft_resources.environment import LLM_COMPRESSOR
from ft_resources.errors import BadBase, CorruptArtifact, Misconfigured
from tests.control.registry.conftest import contents
from tests.fake_base import CHAT_TEMPLATE
from tests.workers.evals.world import World
from tests.workers.exports.made import KINDS, OWN_TEMPLATE, Made
from tests.workers.exports.test_gguf import files_of, quantized

pytestmark = pytest.mark.training


@pytest.mark.parametrize("kind", KINDS)
def test_in_float32_the_merged_model_gives_the_logits_of_base_and_adapter(world: World, kind: str) -> None:
    made = Made.make(world, kind)
    result = merge_model(world.context(made.request()))
    found = result.facts["equality"]
    assert found["merged"]["largest"] < 1e-5
    assert found["base"]["largest"] > 0.1, "an adapter that changes nothing would be equal to its base"
    assert found["rows"] == 8
    # The same without any of our code.
    plain = AutoModelForCausalLM.from_pretrained(world.folder / "base-float32")
    both = PeftModel.from_pretrained(plain, world.folder / "adapter")
    ids = torch.arange(40)[None]
    with torch.no_grad():
        expected = both(ids).logits
        ours = AutoModelForCausalLM.from_pretrained(result.folder)(ids).logits
    assert torch.allclose(ours, expected, atol=1e-5)


def test_an_adapter_on_the_attention_of_a_mixture_of_experts_is_merged(world: World) -> None:
    made = Made.make(world, experts="mixtral", target_modules=["q_proj", "v_proj"])
    found = merge_model(world.context(made.request())).facts["equality"]
    assert found["merged"]["largest"] < 1e-5
    assert found["base"]["largest"] > 0.1


def test_an_adapter_on_the_experts_themselves_is_refused_by_their_name(world: World) -> None:
    made = Made.make(world, experts="mixtral", target_modules=[], target_parameters=["experts.down_proj"])
    with pytest.raises(BadBase, match=r"the adapter of model\.layers\.0\.mlp\.experts is not"):
        merge_model(world.context(made.request()))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("kind", KINDS)
def test_in_half_precision_it_differs_by_no_more_than_rounding_explains(world: World, kind: str, dtype: str) -> None:
    made = Made.make(world, kind, dtype=dtype)
    result = merge_model(world.context(made.request()))
    found = result.facts["equality"]
    assert 0 < found["merged"]["rms"] < found["rounding"]["rms"] < found["base"]["rms"] / 10
    stored = {str(each.dtype) for each in AutoModelForCausalLM.from_pretrained(result.folder).parameters()}
    assert stored == {f"torch.{dtype}"}


def test_merging_again_gives_equal_bytes_and_leaves_the_store_as_it_was(world: World) -> None:
    made = Made.make(world, dtype="bfloat16")
    before = contents(world.store)
    one, two = (files_of(merge_model(world.context(made.request())).folder) for _ in range(2))
    assert one == two
    assert contents(world.store) == before


def test_the_folder_has_the_tokenizer_and_template_of_training_the_licence_and_a_card_of_its_own(world: World) -> None:
    made = Made.make(world)
    folder = merge_model(world.context(made.request())).folder
    files = files_of(folder)
    assert set(files) == set(made.base.manifest.files) | {"chat_template.jinja"}
    assert files["LICENSE"] == b"free"
    assert files["generation_config.json"] == made.base.read("generation_config.json")
    assert files["tokenizer_config.json"] == made.adapter.read("tokenizer_config.json")
    card = files["README.md"].decode()
    for words in ("base_model: acme/tiny", str(made.adapter.address), "acme.things.tiny, merged"):
        assert words in card
    assert AutoTokenizer.from_pretrained(folder).chat_template == OWN_TEMPLATE


def test_a_template_that_is_the_bases_own_is_not_lost_with_the_settings_that_held_it(world: World) -> None:
    made = Made.make(world, template=CHAT_TEMPLATE)
    folder = merge_model(world.context(made.request())).folder
    assert AutoTokenizer.from_pretrained(folder).chat_template == CHAT_TEMPLATE


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"target_modules": ["embed_tokens"]}, "not an update of a linear layer"),
        ({"target_modules": ["q_proj"], "modules_to_save": ["norm"]}, "not an update of a linear layer"),
        ({"rank_pattern": {"q_proj": 2}}, "not a plain LoRA"),
    ],
)
def test_what_cannot_be_merged_is_refused_and_the_error_says_why(
    world: World, changes: dict[str, object], reason: str
) -> None:
    made = Made.make(world, **changes)
    with pytest.raises(BadBase, match=reason):
        merge_model(world.context(made.request()))


def flawed(world: World, monkeypatch: pytest.MonkeyPatch, **changes: object) -> Made:
    """An adapter that is merged as if its configuration said ``changes``."""
    merge = merged.lay_out_merged

    def lay_out(context: object, adapter: Artifact, base: Artifact) -> None:
        config = json.loads(adapter.read("adapter_config.json"))
        monkeypatch.setattr(Artifact, "read", lambda self, name: told(self, name, json.dumps({**config, **changes})))
        merge(context, adapter, base)  # type: ignore[arg-type]
        monkeypatch.undo()

    read = Artifact.read

    def told(artifact: Artifact, name: str, config: str) -> bytes:
        return config.encode() if name == "adapter_config.json" else read(artifact, name)

    made = Made.make(world, dtype="bfloat16")
    monkeypatch.setattr(merged, "lay_out_merged", lay_out)
    return made


@pytest.mark.parametrize("alpha", [0, 4, 10])
def test_a_merge_that_lost_the_adapter_or_its_scale_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch, alpha: int
) -> None:
    made = flawed(world, monkeypatch, lora_alpha=alpha)
    with pytest.raises(BadBase, match="does not answer as base and adapter together"):
        merge_model(world.context(made.request()))


def test_an_adapter_that_changed_since_is_refused(world: World) -> None:
    made = Made.make(world)
    request = made.request()
    request.inputs["adapter"] = request.inputs["base"].model_copy(update={"address": str(made.adapter.address)})
    with pytest.raises(CorruptArtifact, match="has changed since"):
        merge_model(world.context(request))


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
