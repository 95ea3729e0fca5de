"""Answers that people liked or not through the whole graph, and data that is not what a method learns from."""

import json
from pathlib import Path
from typing import Any

import pytest

from ft_assets.control import identity
from ft_assets.records.submissions import SubmissionStatus
from ft_assets.workers.evals.samples import read_suite_samples
from ft_assets.workers.evals.verdicts import load_evidence
from ft_resources.artifacts import Artifacts
from ft_resources.errors import UserError
from tests.e2e.project import COLOURS, Project
from tests.journeys import Journey, copied

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def project(accepted: Journey, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return copied(accepted, tmp_path_factory.mktemp("methods") / "project").project


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
