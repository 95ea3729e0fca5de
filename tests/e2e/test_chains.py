"""A recipe on an accepted adapter: SFT then DPO, and CPT with new tokens then SFT, on a real instance."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from ft_assets.api import FineTuned
from ft_assets.control import identity
from ft_assets.control.lines.mlflow_registry import registration_tags
from ft_assets.control.planning.known_base import base_of_recipe
from ft_assets.control.registry.register import get_recipe, register_recipe
from ft_assets.records.submissions import SubmissionStatus
from ft_assets.workers.adapters.lineage import lineage, verify_lineage
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import BadRecipe
from tests.e2e.project import Project, make_project
from tests.e2e.test_methods import pairs, texts, tune, write

pytestmark = pytest.mark.e2e
NEW = ["thing", "green"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("project"))


def turned(project: Project) -> Path:
    """Pairs whose rejected answers are those that SFT learned, so that DPO has something to turn round."""
    lines = [json.loads(line) for line in pairs(project).read_text().splitlines()]
    return write(
        project.folder / "turned.jsonl",
        [{**line, "chosen": line["rejected"], "rejected": line["chosen"]} for line in lines],
    )


def accepted(project: Project, result: FineTuned) -> Artifact:
    assert result.outcome.status is SubmissionStatus.ACCEPTED, result.outcome.reason
    return Artifacts(project.store).get(Address.parse(result.outcome.adapter))


def answers(model: Any) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = model(torch.arange(8, 40)[None]).logits
    return logits


def test_dpo_stands_on_an_accepted_sft_adapter_and_is_compared_with_it(project: Project, tmp_path: Path) -> None:
    first = tune(project, project.dataset(), "acme.things", project.recipe("acme.sft.v1"))
    sft = accepted(project, first)
    recipe = project.recipe(
        "acme.dpo.v1",
        base="artifact:acme.things.v1|acme.sft.v1",
        method="dpo",
        gates={"task_gain": {"metric": "preference_accuracy", "min_relative": 0.05}},
        steps=12,
    )
    dpo = accepted(project, tune(project, turned(project), "acme.pairs", recipe))
    artifacts, keys = Artifacts(project.store), ("acme.pairs.v1", "acme.dpo.v1")

    # The recipe names the adapter, wherever the pair goes; its base is the tenant's and made of adapter and first base.
    stored = get_recipe(project.store, "acme.dpo.v1")
    assert stored.recipe.base == stored.lock.source == f"artifact:{sft.address}"
    base = identity.base_model(artifacts, "acme.dpo.v1")
    first_base = identity.base_model(artifacts, "acme.sft.v1")
    assert base.address.tenant == "acme"
    assert base.manifest.inputs == {"adapter": sft.ref, "base": first_base.ref}
    assert base_of_recipe(artifacts, "acme.dpo.v1").digest == base.digest

    # It answers as base and adapter do, and is the reference and what the candidate is compared with.
    plain = AutoModelForCausalLM.from_pretrained(first_base.folder(tmp_path))
    alone = answers(plain)
    both = answers(PeftModel.from_pretrained(plain, sft.folder(tmp_path)))
    assert torch.allclose(answers(AutoModelForCausalLM.from_pretrained(base.folder(tmp_path))), both, atol=1e-4)
    assert not torch.allclose(alone, both, atol=1e-2)
    assert identity.reference_logps(artifacts, *keys).manifest.inputs["reference"] == base.ref
    assert identity.eval_report(artifacts, *keys).manifest.inputs["base"] == base.ref
    assert identity.baseline_report(artifacts, keys[1]).manifest.inputs["base"] == base.ref

    # The adapter says what it stands on, and its lineage goes back to both datasets and the first base.
    config = json.loads(dpo.read("adapter_config.json"))
    assert (config["base_model_name_or_path"], config["revision"]) == (f"artifact:{base.address}", base.digest)
    card = dpo.read("README.md").decode()
    assert f"goes on from the accepted adapter `{sft.address}`" in card
    assert f"ft adapter base {dpo.address} BASE" in card
    nodes = {node.address for _, _, node in lineage(artifacts, dpo.address).walk()}
    for key in ("acme.things.v1", "acme.pairs.v1"):
        assert str(identity.raw_dataset(artifacts, key).address) in nodes
    assert get_recipe(project.store, "acme.sft.v1").lock.upload in nodes
    assert verify_lineage(artifacts, dpo.address) == []
    tags = registration_tags(artifacts, dpo)
    assert tags["ft.lineage.checkpoint"] == str(identity.checkpoint(artifacts, *keys).address)

    # Nothing of it may be stood on from outside.
    for key, reason in (("rival.dpo.v1", "this adapter to 'acme'"), ("dpo.v1", "shared by all tenants")):
        outside = project.recipe(key, base=f"artifact:{sft.address}", method="dpo")
        with pytest.raises(BadRecipe, match=reason):
            register_recipe(project.store, outside, actor="eve")


def test_new_tokens_are_learned_and_go_on_into_the_next_recipe(project: Project, tmp_path: Path) -> None:
    artifacts = Artifacts(project.store)
    recipe = project.recipe(
        "acme.cpt.v1", method="cpt", variant="full", new_tokens=NEW, packing={"overlong": "split"}, steps=6
    )
    cpt = accepted(project, tune(project, texts(project), "acme.texts", recipe))
    base = identity.base_model(artifacts, "acme.cpt.v1")
    assert base.facts["new_tokens"] == len(NEW)

    # Their rows moved, and the exported model reads and writes them.
    tokenizer = AutoTokenizer.from_pretrained(cpt.folder(tmp_path))
    numbers = tokenizer.convert_tokens_to_ids(NEW)
    before, after = (
        load_file(each.path("model.safetensors", tmp_path))["model.embed_tokens.weight"] for each in (base, cpt)
    )
    assert before.shape == after.shape == (max(numbers) + 1, before.shape[1])
    assert all((before[number] - after[number]).abs().max() > 1e-4 for number in numbers)
    ids = tokenizer("thing 7 is green")["input_ids"]
    assert [number for number in ids if number in numbers] == numbers
    assert tokenizer.decode(ids) == "thing 7 is green"
    assert "2 new tokens were added" in cpt.read("README.md").decode()

    # The next recipe stands on the whole model; nothing is merged, and its pack has the new ids.
    following = project.recipe("acme.onwards.v1", base=f"artifact:{cpt.address}", steps=6)
    sft = accepted(project, tune(project, project.dataset(), "acme.things", following))
    copied = identity.base_model(artifacts, "acme.onwards.v1")
    assert copied.manifest.inputs == {"adapter": cpt.ref}
    assert copied.manifest.files["model.safetensors"] == cpt.manifest.files["model.safetensors"]
    assert "README.md" not in copied.manifest.files
    packs = ChatTokenizer.load(copied.folder(tmp_path))
    assert packs.tokenizer.encode("thing").ids == [numbers[0]]
    pack = identity.token_pack(artifacts, "acme.things.v1", "acme.onwards.v1")
    doctor = json.loads(pack.read("evidence/doctor.json"))
    assert all(check["passed"] for check in doctor["checks"])
    assert verify_lineage(artifacts, sft.address) == []
