"""A vision-language base through the whole graph: SFT on its text part, then the full model on the adapter."""

from pathlib import Path
from typing import Any

import pytest

from ft_assets.control import identity
from ft_resources.artifacts import Artifacts
from tests.fake_base import make_fake_base
from tests.journeys import Journey, copied

# Each step alone: workers/training/test_composites.py; continued adapters through the graph: test_chains.py.
pytestmark = [pytest.mark.e2e, pytest.mark.long]
_SEES = ("vision_tower.", "multi_modal_projector.")


def test_an_adapter_of_a_composite_and_the_full_model_on_it_are_accepted_and_load_as_the_whole(
    accepted: Journey, tmp_path: Path
) -> None:
    import torch
    from peft import PeftModel
    from safetensors.torch import load_file
    from transformers import AutoModelForImageTextToText

    from tests.workers.training.families import FAMILIES

    project = copied(accepted, tmp_path / "project").project
    seeing = make_fake_base(project.folder / "seeing")
    FAMILIES["gemma3"].model().save_pretrained(seeing)
    (seeing / "preprocessor_config.json").write_text('{"image_processor_type": "Gemma3ImageProcessor"}')
    recipe = project.recipe("acme.sft.v1", base="folder:./seeing", packing={"max_length": 96})
    adapter = project.accepted(accepted.dataset, recipe)
    base = identity.base_model(Artifacts(project.store), "acme.sft.v1").folder(tmp_path)
    plain: Any = AutoModelForImageTextToText.from_pretrained(base)
    both = PeftModel.from_pretrained(plain, adapter.folder(tmp_path))
    assert both.generate(input_ids=torch.arange(40, 46)[None], max_new_tokens=3).shape[1] > 6
    assert "AutoModelForImageTextToText" in adapter.read("README.md").decode()

    recipe = project.recipe(
        "acme.full.v1",
        base=f"artifact:{accepted.dataset}|acme.sft.v1",
        method="cpt",
        variant="full",
        packing={"max_length": 96, "overlong": "split"},
    )
    full = project.accepted(project.texts(), recipe, "acme.texts")
    folder = full.folder(tmp_path)
    assert (folder / "preprocessor_config.json").read_bytes() == (seeing / "preprocessor_config.json").read_bytes()
    before, after = load_file(seeing / "model.safetensors"), load_file(folder / "model.safetensors")
    assert before.keys() == after.keys()
    kept = {name for name in before if torch.equal(before[name], after[name])}
    assert kept == {name for name in before if name.startswith(_SEES)}
    AutoModelForImageTextToText.from_pretrained(folder)
