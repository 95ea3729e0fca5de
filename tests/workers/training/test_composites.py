"""Only a composite's text part is trained, whatever a recipe names; the rest is exported unchanged."""

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

# PEFT looks once, when it is imported, for bitsandbytes, which a worker that needs none hides: so it comes first.
from peft import LoraConfig, PeftModel, get_peft_model  # isort: skip
from transformers import AutoModel, AutoModelForImageTextToText
from transformers.models.gemma3n import Gemma3nVisionConfig

from ft_assets.settings.catalogue.composites import COMPOSITES
from ft_assets.settings.catalogue.families import how_documents_run
from ft_assets.settings.recipe.training import LoraSettings, TrainingSettings
from ft_assets.workers.base_models.context import context_length
from ft_assets.workers.base_models.merge import CONFIG, WEIGHTS, merge_adapter
from ft_assets.workers.evals.generation import _generate, generate
from ft_assets.workers.evals.model import load_model
from ft_assets.workers.evals.tree_scoring import agrees
from ft_assets.workers.model_size.model_size import read_architecture
from ft_assets.workers.packs.evidence import vocabulary_size
from ft_assets.workers.packs.isolation.choice import choose
from ft_assets.workers.training.model import Origin, load_base, require_targets, save_final, with_adapters
from ft_assets.workers.training.variants.text_part import other_parts
from ft_resources.errors import BadBase, BadRecipe
from tests.fake_base import VOCABULARY, make_fake_base
from tests.workers.packs.corners import corners
from tests.workers.training.families import FAMILIES
from tests.workers.training.placed import PLACED

pytestmark = pytest.mark.training
Made = Callable[[str], Path]
TRAINING = TrainingSettings(precision="fp32")
TRIED = FAMILIES | PLACED
ORIGIN = Origin(source="hub:acme/seeing", revision="0123", dtype="bfloat16")
# The parts other than text, by the first names of tensors in files of any form.
OTHERS = tuple(
    f"{prefix}{part}."
    for prefix in ("", "model.")
    for part in (
        *("vision_tower", "vision_model", "visual", "vision_embed_tokens", "vision_embedder", "audio_tower"),
        *("multi_modal_projector", "mm_projector", "connector", "embed_vision", "embed_audio"),
    )
)
# In a text part, and no parameters; and a parameter that is no module's.
_UNTRAINED = ("layer_scalar", "e_score_correction_bias", "image_newline")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A checkpoint with a tokenizer, stored in bfloat16, whose windows are longer than what is asked here."""

    @cache
    def saved(kind: str) -> Path:
        folder = make_fake_base(tmp_path_factory.mktemp(kind))
        model = TRIED[kind].model().to(torch.bfloat16)
        if getattr(model.config.get_text_config(), "sliding_window", None):
            model.config.get_text_config().sliding_window = 256
        model.save_pretrained(folder)
        return folder

    return saved


# Their files have other names for the layers than their models.
_RENAMED = {"kimi_k25"}


def text_part(model: Any) -> str:
    """The name of the module that is the text part without its head."""
    return next(name for name, module in model.named_modules() if module is model.get_decoder())


def lora(targets: Any) -> LoraSettings:
    return LoraSettings(rank=2, alpha=4, target_modules=targets)


def test_each_composite_is_tried() -> None:
    assert set(COMPOSITES) <= set(TRIED)


@pytest.mark.parametrize("kind", corners(COMPOSITES, sorted(COMPOSITES)[::3]))
def test_a_full_model_has_every_tensor_of_its_base_and_those_of_no_text_unchanged(
    kind: str, made: Made, tmp_path: Path
) -> None:
    base = made(kind)
    model = load_base(base, TRAINING, full=True)
    with torch.no_grad():
        for weight in (each for each in model.parameters() if each.requires_grad):
            weight.add_(1.0)
    save_final(model, tmp_path / "final", ORIGIN, full=True)
    before, after = load_file(base / "model.safetensors"), load_file(tmp_path / "final" / "model.safetensors")
    assert set(before) == set(after)
    kept = {name for name in before if torch.equal(before[name], after[name])}
    assert kept == {name for name in before if name.startswith(OTHERS) or name.endswith(_UNTRAINED)} != set()
    assert all(before[name].dtype == after[name].dtype for name in before)
    AutoModelForImageTextToText.from_pretrained(tmp_path / "final")


@pytest.mark.parametrize("targets", ["all-linear", ("q_proj", "q_b_proj", "query_key_value", "down_proj", "qkv")])
@pytest.mark.parametrize("kind", corners(COMPOSITES, sorted(COMPOSITES)[::3]))
def test_adapters_are_in_the_text_part_alone(kind: str, targets: Any, made: Made, tmp_path: Path) -> None:
    base = made(kind)
    model = load_base(base, TRAINING, full=False)
    others = tuple(f"base_model.model.{part}." for part in other_parts(model))
    text = f"base_model.model.{text_part(model)}."
    adapted = with_adapters(model, lora(targets))
    trained = [name for name, weight in adapted.named_parameters() if weight.requires_grad]
    assert [name for name in trained if name.startswith(text) and ("q_" in name or "query" in name)]
    assert not [name for name in trained if name.startswith(others)]
    save_final(adapted, tmp_path / "final", ORIGIN, full=False)
    names = load_file(tmp_path / "final" / WEIGHTS)
    assert {name.rpartition(".lora_")[0] for name in names} == {name.rpartition(".lora_")[0] for name in trained}


@pytest.mark.parametrize(("kind", "module"), [("gemma3", "fc1"), ("qwen2_5_vl", "visual.blocks.0.attn.qkv")])
def test_a_module_outside_of_the_text_part_is_not_there_to_be_named(kind: str, module: str, made: Made) -> None:
    model = load_base(made(kind), TRAINING, full=False)
    with pytest.raises(BadRecipe, match="the base has no module"):
        require_targets(model, lora((module,)))


@pytest.mark.parametrize("kind", corners(COMPOSITES, sorted(COMPOSITES)[::3]))
def test_an_evaluation_loads_what_peft_loads_and_a_merged_model_answers_alike(
    kind: str, made: Made, tmp_path: Path
) -> None:
    base, adapter = made(kind), tmp_path / "adapter"
    plain: Any = AutoModelForImageTextToText.from_pretrained(base, dtype=torch.float32)
    queries = ("q_proj", "q_b_proj", "query_key_value")
    text = f"{text_part(plain)}."
    parts = [name for name, _ in plain.named_modules() if name.startswith(text) and name.endswith(queries)]
    tuned: Any = get_peft_model(plain, LoraConfig(r=3, lora_alpha=5, target_modules=parts))
    torch.manual_seed(1)
    for name, parameter in tuned.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, std=0.2)
    tuned.save_pretrained(adapter, save_embedding_layers=False)
    inputs = {"input_ids": torch.arange(40, 60)[None], "attention_mask": torch.ones(1, 20, dtype=torch.long)}
    with torch.no_grad():
        expected = tuned.eval()(**inputs).logits
        loaded = load_model(base, adapter)
        assert isinstance(loaded.model, PeftModel)
        torch.testing.assert_close(loaded.model(**inputs).logits, expected, atol=1e-5, rtol=0)
        merged = shutil.copytree(base, tmp_path / "merged")
        settings = json.loads((adapter / CONFIG).read_bytes())
        files = [merged / "model.safetensors"]
        if kind in _RENAMED:
            with pytest.raises(BadBase, match="merging them is not supported"):
                merge_adapter(settings, adapter / WEIGHTS, files, tied=False)
        else:
            merge_adapter(settings, adapter / WEIGHTS, files, tied=False)
            # Rounded once to the base's bfloat16.
            torch.testing.assert_close(load_model(merged).model(**inputs).logits, expected, atol=3e-2, rtol=3e-2)
    if choose(base).mode == "packed":
        assert agrees(loaded.model)


@pytest.mark.parametrize("kind", ["gemma3", "gemma4", "qwen2_vl", "qwen3_vl", "mllama"])
def test_answers_of_a_batch_are_those_of_each_prompt_alone_by_transformers(kind: str, made: Made) -> None:
    loaded = load_model(made(kind))
    shared = list(range(100, 180))
    for prompts in ([[40, 41, 42], [50, 51], list(range(60, 80))], [[*shared, 40, 41], [*shared, 50, 52]]):
        found = generate(loaded, prompts, 8, [2])
        assert found == [_generate(loaded.model, [prompt], 8, [2])[0] for prompt in prompts]


def test_settings_beside_those_of_the_vision_part_are_the_text_part_s(made: Made, tmp_path: Path) -> None:
    """Files as Qwen published them until 3-VL; Transformers no longer writes this form."""
    base = shutil.copytree(made("qwen2_5_vl"), tmp_path / "base")
    config = json.loads((base / "config.json").read_bytes())
    text = config.pop("text_config")
    text["rope_scaling"] = {"type": "mrope", "mrope_section": text.pop("rope_parameters")["mrope_section"]}
    data = json.dumps({**text, **config}).encode()
    (base / "config.json").write_bytes(data)
    assert (vocabulary_size(data), context_length(data)) == (VOCABULARY, 256)
    assert how_documents_run(data) == ("packed", "")
    model = load_base(base, TRAINING, full=True)
    found = read_architecture(json.loads(data), sum(weight.numel() for weight in model.parameters()))
    assert found is not None
    assert found.parameters == sum(weight.numel() for weight in model.parameters() if weight.requires_grad)


def test_names_of_an_older_checkpoint_are_those_of_its_export(made: Made, tmp_path: Path) -> None:
    base = shutil.copytree(made("gemma3"), tmp_path / "base")
    older = {
        name.replace("vision_tower.", "vision_tower.vision_model."): value
        for name, value in load_file(base / "model.safetensors").items()
    }
    save_file(older, base / "model.safetensors", metadata={"format": "pt"})
    save_final(load_base(base, TRAINING, full=True), tmp_path / "final", ORIGIN, full=True)
    after = load_file(tmp_path / "final" / "model.safetensors")
    assert after.keys() == older.keys()
    assert all(torch.equal(after[name], older[name]) for name in older)


def test_a_composite_that_was_not_tried_or_cannot_be_trained_is_refused_with_the_reason(
    made: Made, tmp_path: Path
) -> None:
    base = shutil.copytree(made("gemma3"), tmp_path / "base")
    config = json.loads((base / "config.json").read_bytes())
    for kind, reason in (("aria", "not tried"), ("paligemma", "in both directions")):
        (base / "config.json").write_text(json.dumps({**config, "model_type": kind}))
        with pytest.raises(BadBase, match=f"{kind} is not trained: .*{reason}"):
            choose(base)


def test_a_part_of_a_package_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FAMILIES["gemma3n"].config().save_pretrained(tmp_path)
    monkeypatch.delitem(AutoModel._model_mapping._extra_content, Gemma3nVisionConfig)
    with pytest.raises(BadBase, match=r"gemma3n needs a package that is not installed .*timm"):
        choose(tmp_path)
