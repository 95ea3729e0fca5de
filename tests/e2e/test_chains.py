"""Trainings that continue an accepted adapter: DPO on SFT, SFT on CPT with new tokens, SFT on new rows; and KTO."""

import json
from pathlib import Path
from typing import Any

import pytest

from ft_assets import api
from ft_assets.control import identity
from ft_assets.control.lines.mlflow_registry import registration_tags
from ft_assets.control.planning.known_base import base_of_recipe
from ft_assets.control.registry.register import get_recipe, register_recipe
from ft_assets.control.submissions.works import read_works
from ft_assets.records.submissions import Submission, SubmissionStatus, all_submissions
from ft_assets.workers.adapters.lineage import lineage, verify_lineage
from ft_assets.workers.evals.samples import read_suite_samples
from ft_assets.workers.evals.verdicts import load_evidence
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.errors import BadRecipe, MissingInput, UserError
from tests.e2e.project import COLOURS, Project
from tests.fake_base import CHAT_TEMPLATE, make_fake_base
from tests.journeys import Journey, copied

pytestmark = pytest.mark.e2e
NEW = ["thing", "green"]
DPO, CPT = ("acme.pairs.v1", "acme.dpo.v1"), ("acme.texts.v1", "acme.cpt.v1")
LINE = "acme.things.tiny"


@pytest.fixture(scope="module")
def project(accepted: Journey, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the journey of an accepted pair, on which all of these stand."""
    return copied(accepted, tmp_path_factory.mktemp("chains") / "project").project


@pytest.fixture(scope="module")
def artifacts(project: Project) -> Artifacts:
    return Artifacts(project.store)


@pytest.fixture(scope="module")
def sft(accepted: Journey, artifacts: Artifacts) -> Artifact:
    return artifacts.get(Address.parse(accepted.adapter))


@pytest.fixture(scope="module")
def dpo(project: Project, accepted: Journey) -> Artifact:
    """An adapter by DPO on that of SFT; its rejected answers are those that SFT learned, so that there is something to
    turn round."""
    recipe = project.recipe(
        DPO[1],
        base=f"artifact:{accepted.pair}",
        method="dpo",
        preference={"beta": 0.5},
        gates={"task_gain": {"metric": "preference_accuracy", "min_relative": 0.05}},
        steps=12,
    )
    lines = [json.loads(line) for line in project.pairs().read_text().splitlines()]
    turned = [{**line, "chosen": line["rejected"], "rejected": line["chosen"]} for line in lines]
    return project.accepted(project.rows("turned.jsonl", turned), recipe, "acme.pairs")


@pytest.fixture(scope="module")
def cpt(project: Project) -> Artifact:
    """A whole model that learned texts and new tokens, on a base without a chat template."""
    make_fake_base(project.folder / "untaught", with_template=False)
    recipe = project.recipe(
        CPT[1],
        base="folder:./untaught",
        method="cpt",
        variant="full",
        new_tokens=NEW,
        packing={"overlong": "split"},
        steps=6,
    )
    return project.accepted(project.texts(), recipe, "acme.texts")


def submission_of(project: Project, recipe: str) -> Submission:
    (found,) = [each for each in all_submissions(project.store, "acme") if each.recipe == recipe]
    return found


def answers(model: Any) -> Any:
    import torch

    with torch.no_grad():
        return model(torch.arange(8, 40)[None]).logits


def test_dpo_stands_on_an_accepted_sft_adapter_and_is_compared_with_it(
    project: Project, artifacts: Artifacts, accepted: Journey, sft: Artifact, dpo: Artifact, tmp_path: Path
) -> None:
    from peft import PeftModel
    from torch import allclose
    from transformers import AutoModelForCausalLM

    # The recipe names the adapter, wherever the pair goes; its base is the tenant's and made of adapter and first base.
    stored = get_recipe(project.store, DPO[1])
    assert stored.recipe.base == stored.lock.source == f"artifact:{sft.address}"
    base = identity.base_model(artifacts, DPO[1])
    first_base = identity.base_model(artifacts, accepted.recipe)
    assert base.address.tenant == "acme"
    assert base.manifest.inputs == {"adapter": sft.ref, "base": first_base.ref}
    assert base_of_recipe(artifacts, DPO[1]).digest == base.digest

    # It answers as base and adapter do, and is the reference and what the candidate is compared with.
    plain = AutoModelForCausalLM.from_pretrained(first_base.folder(tmp_path))
    alone = answers(plain)
    both = answers(PeftModel.from_pretrained(plain, sft.folder(tmp_path)))
    assert allclose(answers(AutoModelForCausalLM.from_pretrained(base.folder(tmp_path))), both, atol=1e-4)
    assert not allclose(alone, both, atol=1e-2)
    assert identity.reference_logps(artifacts, *DPO).manifest.inputs["reference"] == base.ref
    assert identity.eval_report(artifacts, *DPO).manifest.inputs["base"] == base.ref
    assert identity.baseline_report(artifacts, DPO[1]).manifest.inputs["base"] == base.ref

    # The adapter says what it stands on, and its lineage goes back to both datasets and the first base.
    config = json.loads(dpo.read("adapter_config.json"))
    assert (config["base_model_name_or_path"], config["revision"]) == (f"artifact:{base.address}", base.digest)
    card = dpo.read("README.md").decode()
    assert f"goes on from the accepted adapter `{sft.address}`" in card
    assert f"ft adapter base {dpo.address} BASE" in card
    nodes = {node.address for _, _, node in lineage(artifacts, dpo.address).walk()}
    for key in (accepted.dataset, DPO[0]):
        assert str(identity.raw_dataset(artifacts, key).address) in nodes
    assert get_recipe(project.store, accepted.recipe).lock.upload in nodes
    assert verify_lineage(artifacts, dpo.address) == []
    tags = registration_tags(artifacts, dpo)
    assert tags["ft.lineage.checkpoint"] == str(identity.checkpoint(artifacts, *DPO).address)

    # Nothing of it may be stood on from outside.
    for key, reason in (("rival.dpo.v1", "this adapter to 'acme'"), ("dpo.v1", "shared by all tenants")):
        outside = project.recipe(key, base=f"artifact:{sft.address}", method="dpo")
        with pytest.raises(BadRecipe, match=reason):
            register_recipe(project.store, outside, actor="eve")


def test_a_dpo_pair_has_its_reference_scored_and_becomes_an_adapter(
    project: Project, artifacts: Artifacts, dpo: Artifact
) -> None:
    checkpoint, scored = identity.checkpoint(artifacts, *DPO), identity.reference_logps(artifacts, *DPO)
    assert checkpoint.manifest.inputs["reference_logps"] == scored.ref
    steps = [json.loads(line) for line in checkpoint.read("report/steps.jsonl").decode().splitlines()]
    assert steps[0]["loss"] == pytest.approx(0.693147, abs=1e-4)
    assert steps[-2]["rewards/margins"] > 0
    submission = submission_of(project, DPO[1])
    works = [work.asset for work in read_works(project.store, submission)]
    assert works.index("token_pack") < works.index("reference_logps") < works.index("checkpoint")
    holdout = load_evidence(identity.eval_report(artifacts, *DPO)).holdout
    assert set(holdout) == {"perplexity", "exact_match", "f1", "preference_accuracy"}
    assert identity.eval_report_request(artifacts, *DPO).params["pairs"] == "mean_logp"
    assert "| beta | 0.5 |" in dpo.read("README.md").decode()

    # What is asked for again is there; nothing is scored or trained twice.
    assert project.accepted(*DPO, actor="bob").ref == dpo.ref
    assert len(attempts_at(project.store, scored.address)) == len(attempts_at(project.store, checkpoint.address)) == 1

    # Without the reference, whoever needs the checkpoint is told what to make, and status and plan go on.
    project.store.delete(f"{scored.address}/manifest.json")
    with pytest.raises(MissingInput) as missing:
        identity.checkpoint_request(artifacts, *DPO)
    assert missing.value.asset == "checkpoint"
    made = {work.asset: work.done for work in read_works(project.store, submission)}
    assert (made["token_pack"], made["reference_logps"], made["checkpoint"]) == (True, False, False)


def test_texts_are_learned_whole_and_scored_without_questions_on_a_base_without_a_chat_template(
    project: Project, artifacts: Artifacts, cpt: Artifact
) -> None:
    pack = identity.token_pack(artifacts, *CPT)
    assert pack.facts["documents"] > pack.facts["examples"]
    assert pack.facts["dropped"] == 0
    report = identity.eval_report(artifacts, *CPT)
    assert set(load_evidence(report).holdout) == {"perplexity"}
    _, columns = read_suite_samples(report.path("samples/holdout.parquet", project.folder / "cache"))
    assert set(columns) == {"kind", "tokens", "base_nll", "candidate_nll"}
    assert "xact match" not in report.read("report/report.html").decode()
    assert "exact match" not in cpt.read("README.md").decode()
    assert "chat_template.jinja" not in cpt.manifest.files
    works = read_works(project.store, submission_of(project, CPT[1]))
    assert "reference_logps" not in {work.asset for work in works}


def test_new_tokens_are_learned_and_go_on_into_the_next_recipe(
    project: Project, artifacts: Artifacts, accepted: Journey, cpt: Artifact, tmp_path: Path
) -> None:
    from safetensors.torch import load_file
    from transformers import AutoTokenizer

    base = identity.base_model(artifacts, CPT[1])
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
    (project.folder / "chat.jinja").write_text(CHAT_TEMPLATE)
    onwards = "acme.onwards.v1"
    following = project.recipe(onwards, base=f"artifact:{cpt.address}", chat_template="chat.jinja", steps=6)
    next_one = project.accepted(accepted.dataset, following)
    stands_on = identity.base_model(artifacts, onwards)
    assert stands_on.manifest.inputs == {"adapter": cpt.ref}
    assert stands_on.manifest.files["model.safetensors"] == cpt.manifest.files["model.safetensors"]
    assert "README.md" not in stands_on.manifest.files
    packs = ChatTokenizer.load(stands_on.folder(tmp_path))
    assert packs.tokenizer.encode("thing").ids == [numbers[0]]
    pack = identity.token_pack(artifacts, accepted.dataset, onwards)
    doctor = json.loads(pack.read("evidence/doctor.json"))
    assert all(check["passed"] for check in doctor["checks"])
    assert verify_lineage(artifacts, next_one.address) == []


def losses(checkpoint: Artifact) -> list[float]:
    rows = map(json.loads, checkpoint.read("report/steps.jsonl").decode().splitlines())
    return [row["loss"] for row in rows if "loss" in row]


def test_new_rows_continue_the_adapter_that_stands_in_a_stage(
    project: Project, artifacts: Artifacts, accepted: Journey, sft: Artifact
) -> None:
    api.promote(LINE, "staging", reason="good", store=project.store, actor="ann")
    keys = ("acme.things.v2", "acme.tiny.v2")
    recipe = project.recipe(keys[1], training={"warm_start": f"artifact:{LINE}@staging"})
    second = project.accepted(project.dataset(rows=240, name="more.jsonl"), recipe, "acme.things")

    before = identity.checkpoint(artifacts, accepted.dataset, accepted.recipe)
    after = identity.checkpoint(artifacts, *keys)
    assert second.facts["line"] == LINE
    assert losses(after)[0] < losses(before)[0] - 0.3
    assert after.facts["continued_from"] == str(sft.address)

    # The adapter says what it continued, down to the rows that the earlier training read.
    assert f"continued the accepted adapter `{sft.address}`" in second.read("README.md").decode()
    assert json.loads(second.read("lineage.json"))["continued_from"] == str(sft.address)
    nodes = {node.address for _, _, node in lineage(artifacts, second.address).walk()}
    for key in (accepted.dataset, keys[0]):
        assert str(identity.raw_dataset(artifacts, key).address) in nodes
    assert verify_lineage(artifacts, second.address) == []
    report = api.prove_ledger(*keys, store=project.store)
    assert (report.proof.findings, report.earlier) == ([], (before.address,))
    api.promote(str(second.address), "staging", reason="better", store=project.store, actor="ann")


def labelled(project: Project, rows: int = 160) -> Path:
    """Questions with one answer each; people liked sentences and no noise, and say so in several ways."""
    ways: dict[bool, list[Any]] = {True: [True, 1, "true"], False: [False, 0, "False"]}
    lines = []
    for number in range(rows):
        liked = number % 2 == 0
        answer = f"thing {number} is {COLOURS[number % 5]}" if liked else f"{number * 7919 % 1000} zq {number * 31} xv"
        question = f"what colour is thing {number}?"
        lines.append({"prompt": question, "completion": answer, "label": ways[liked][number // 2 % 3]})
    return project.rows("labelled.jsonl", lines)


def test_answers_that_people_liked_or_not_are_learned_by_kto_and_measured_by_the_liked_ones(project: Project) -> None:
    recipe = project.recipe("labelled.v1", method="kto", kto={"beta": 0.5}, steps=6)
    policy = project.folder / "labelled.yaml"
    policy.write_text("form: unpaired_preference\n")
    result = project.tune(labelled(project), recipe, "acme.labelled", policy=policy)
    # Whether six steps are gain enough is the gates' business.
    assert result.outcome.status in (SubmissionStatus.ACCEPTED, SubmissionStatus.REJECTED), result.outcome.reason
    artifacts, keys = Artifacts(project.store), ("acme.labelled.v1", "labelled.v1")
    pack = identity.token_pack(artifacts, *keys)
    assert pack.facts["form"] == "unpaired_preference"
    assert pack.facts["documents"] == 2 * pack.facts["examples"]
    checkpoint = identity.checkpoint(artifacts, *keys)
    assert checkpoint.manifest.inputs["reference_logps"] == identity.reference_logps(artifacts, *keys).ref
    steps = [json.loads(line) for line in checkpoint.read("report/steps.jsonl").decode().splitlines()]
    assert steps[0]["loss"] == pytest.approx(0.5, abs=1e-4)
    assert steps[-2]["rewards/margins"] > 0
    report = identity.eval_report(artifacts, *keys)
    assert set(load_evidence(report).holdout) == {"perplexity", "exact_match", "f1"}
    _, columns = read_suite_samples(report.path("samples/holdout.parquet", project.folder / "cache"))
    assert all(target.startswith("thing") for target in columns["target"])


def test_a_method_that_learns_from_other_data_is_refused_before_anything_is_packed(
    project: Project, accepted: Journey
) -> None:
    with pytest.raises(UserError, match="has chat data, and orpo needs preference data"):
        project.tune(accepted.dataset, project.recipe("wrong.v1", method="orpo"))
    with pytest.raises(UserError, match="orpo needs preference data"):
        identity.token_pack_request(Artifacts(project.store), accepted.dataset, "wrong.v1")
