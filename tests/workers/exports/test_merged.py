"""A merged model is base and adapter as one: equal by its logits, the same bytes each time, ready for any engine."""

import json
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from ft_assets.workers.exports import merged
from ft_assets.workers.exports.merged import merge_model
from ft_resources.artifacts import Artifact
from ft_resources.errors import BadBase, CorruptArtifact
from tests.control.registry.conftest import contents
from tests.fake_base import CHAT_TEMPLATE
from tests.workers.evals.world import World
from tests.workers.exports.made import KINDS, OWN_TEMPLATE, Made

pytestmark = pytest.mark.training


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


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
