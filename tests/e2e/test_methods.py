"""Pairs of answers and plain texts through the whole graph, on a real instance with real workers."""

import json
from pathlib import Path
from typing import Any

import pytest

from ft_assets.api import FineTuned, fine_tune
from ft_assets.control import identity
from ft_assets.control.submissions.works import read_works
from ft_assets.graph.orchestrator import Dagster
from ft_assets.records.submissions import SubmissionStatus
from ft_assets.workers.evals.samples import read_suite_samples
from ft_assets.workers.evals.verdicts import load_evidence
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.errors import MissingInput, UserError
from tests.e2e.project import Project, make_project
from tests.fake_base import make_fake_base

pytestmark = pytest.mark.e2e
COLOURS = ("red", "green", "blue", "grey", "white")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("project"))


def pairs(project: Project, rows: int = 120) -> Path:
    """Questions with a sentence as the chosen answer, and with noise as the rejected one."""
    lines = [
        {
            "prompt": f"what colour is thing {number}?",
            "chosen": f"thing {number} is {COLOURS[number % 5]}",
            "rejected": f"{number * 7919 % 1000} zq {number * 31 % 97} xv",
        }
        for number in range(rows)
    ]
    return write(project.folder / "pairs.jsonl", lines)


def texts(project: Project, rows: int = 120) -> Path:
    """Texts of which some are longer than a window of 128 tokens."""
    lines = [
        {"text": " ".join(f"thing {number} is {COLOURS[number % 5]}" for _ in range(1 + number % 12))}
        for number in range(rows)
    ]
    return write(project.folder / "texts.jsonl", lines)


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def tune(project: Project, dataset: Path, name: str, recipe: Path) -> FineTuned:
    return fine_tune(
        dataset,
        recipe,
        name=name,
        store=project.store,
        orchestrator=Dagster(project.instance()),
        actor="ann",
    )


def evaluated(artifacts: Artifacts, dataset: str, recipe: str) -> Artifact:
    return identity.eval_report(artifacts, dataset, recipe)


def test_a_dpo_pair_has_its_reference_scored_and_becomes_an_adapter(project: Project) -> None:
    recipe = project.recipe("pairs.v1", method="dpo", preference={"beta": 0.5}, steps=6)
    result = tune(project, pairs(project), "acme.pairs", recipe)
    assert result.outcome.status is SubmissionStatus.ACCEPTED, result.outcome.reason
    artifacts, keys = Artifacts(project.store), ("acme.pairs.v1", "pairs.v1")
    checkpoint, scored = identity.checkpoint(artifacts, *keys), identity.reference_logps(artifacts, *keys)
    assert checkpoint.manifest.inputs["reference_logps"] == scored.ref
    assert len(attempts_at(project.store, scored.address)) == 1
    steps = [json.loads(line) for line in checkpoint.read("report/steps.jsonl").decode().splitlines()]
    assert steps[0]["loss"] == pytest.approx(0.693147, abs=1e-4)
    assert steps[-2]["rewards/margins"] > 0
    works = [work.asset for work in read_works(project.store, result.submission)]
    assert works.index("token_pack") < works.index("reference_logps") < works.index("checkpoint")
    holdout = load_evidence(evaluated(artifacts, *keys)).holdout
    assert set(holdout) == {"perplexity", "exact_match", "f1", "preference_accuracy"}
    assert identity.eval_report_request(artifacts, *keys).params["pairs"] == "mean_logp"
    adapter = artifacts.get(Address.parse(result.outcome.adapter))
    assert "| beta | 0.5 |" in adapter.read("README.md").decode()

    # What is asked for again is there; nothing is scored or trained twice.
    again = fine_tune(*keys, store=project.store, orchestrator=Dagster(project.instance()), actor="bob")
    assert again.outcome.adapter == result.outcome.adapter
    assert len(attempts_at(project.store, scored.address)) == len(attempts_at(project.store, checkpoint.address)) == 1

    # Without the reference, whoever needs the checkpoint is told what to make, and status and plan go on.
    project.store.delete(f"{scored.address}/manifest.json")
    with pytest.raises(MissingInput) as missing:
        identity.checkpoint_request(artifacts, *keys)
    assert missing.value.asset == "checkpoint"
    made = {work.asset: work.done for work in read_works(project.store, result.submission)}
    assert (made["token_pack"], made["reference_logps"], made["checkpoint"]) == (True, False, False)


def labelled(project: Project, rows: int = 160) -> Path:
    """Questions with one answer each; people liked sentences and no noise, and say so in several ways."""
    ways: dict[bool, list[Any]] = {True: [True, 1, "true"], False: [False, 0, "False"]}
    lines = []
    for number in range(rows):
        liked = number % 2 == 0
        answer = f"thing {number} is {COLOURS[number % 5]}" if liked else f"{number * 7919 % 1000} zq {number * 31} xv"
        question = f"what colour is thing {number}?"
        lines.append({"prompt": question, "completion": answer, "label": ways[liked][number // 2 % 3]})
    return write(project.folder / "labelled.jsonl", lines)


def test_answers_that_people_liked_or_not_are_learned_by_kto_and_measured_by_the_liked_ones(project: Project) -> None:
    recipe = project.recipe("labelled.v1", method="kto", kto={"beta": 0.5}, steps=6)
    policy = project.folder / "labelled.yaml"
    policy.write_text("form: unpaired_preference\n")
    where = {"store": project.store, "orchestrator": Dagster(project.instance()), "actor": "ann"}
    result = fine_tune(labelled(project), recipe, name="acme.labelled", policy=policy, **where)
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
    report = evaluated(artifacts, *keys)
    assert set(load_evidence(report).holdout) == {"perplexity", "exact_match", "f1"}
    _, columns = read_suite_samples(report.path("samples/holdout.parquet", project.folder / "cache"))
    assert all(target.startswith("thing") for target in columns["target"])


def test_texts_are_learned_whole_and_scored_without_questions_on_a_base_without_a_chat_template(
    project: Project,
) -> None:
    make_fake_base(project.folder / "untaught", with_template=False)
    recipe = project.recipe("texts.v1", base="folder:./untaught", method="cpt", packing={"overlong": "split"}, steps=6)
    result = tune(project, texts(project), "acme.texts", recipe)
    assert result.outcome.status is SubmissionStatus.ACCEPTED, result.outcome.reason
    artifacts, keys = Artifacts(project.store), ("acme.texts.v1", "texts.v1")
    pack = identity.token_pack(artifacts, *keys)
    assert pack.facts["documents"] > pack.facts["examples"]
    assert pack.facts["dropped"] == 0
    report = evaluated(artifacts, *keys)
    assert set(load_evidence(report).holdout) == {"perplexity"}
    _, columns = read_suite_samples(report.path("samples/holdout.parquet", project.folder / "cache"))
    assert set(columns) == {"kind", "tokens", "base_nll", "candidate_nll"}
    page = report.read("report/report.html").decode()
    assert "xact match" not in page
    adapter = artifacts.get(Address.parse(result.outcome.adapter))
    assert "exact match" not in adapter.read("README.md").decode()
    assert "chat_template.jinja" not in adapter.manifest.files
    assert "reference_logps" not in {work.asset for work in read_works(project.store, result.submission)}


def test_a_method_that_learns_from_other_data_is_refused_before_anything_is_packed(project: Project) -> None:
    recipe = project.recipe("wrong.v1", method="orpo")
    with pytest.raises(UserError, match="has chat data, and orpo needs preference data"):
        tune(project, project.dataset(), "acme.things", recipe)
    with pytest.raises(UserError, match="orpo needs preference data"):
        identity.token_pack_request(Artifacts(project.store), "acme.things.v1", "wrong.v1")
