"""A planted overfit: answers that only learning by heart can give, read many times over."""

import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ft_assets.cli.main import app
from ft_assets.control.lines.verify import verify
from ft_assets.control.rejections.record import FOLDER, RejectionRecord
from ft_assets.records.submissions import SubmissionStatus
from ft_assets.workers.evals.samples import read_suite_samples
from ft_assets.workers.suites.suites import add_suite
from ft_resources.artifacts import Address, Artifact, Artifacts
from tests.choice_suite import write_choice_suite
from tests.e2e.project import Project, make_project
from tests.journeys import Journey, copied

# What is told of such a curve: control/rejections/test_suggest.py and test_record.py; which weights become the adapter:
# workers/evals/test_weighing.py and test_evaluate.py.
pytestmark = [pytest.mark.e2e, pytest.mark.long]
STEPS = 120
# So high a rate that weights which are kept on the way differ.
KEPT = {"learning_rate": 0.2, "validate_every_steps": 3, "keep_best": 2, "schedule": "constant"}


def unlearnable(project: Project, rows: int = 200) -> Path:
    """Questions whose answers follow from nothing: whatever a model is sure of on other rows is wrong."""
    draw = random.Random(5)
    lines = []
    for number in range(rows):
        question = {"role": "user", "content": f"the letter of {chr(0x4E00 + number)}"}
        lines.append({"messages": [question, {"role": "assistant", "content": draw.choice("abcdefghijklmnop")}]})
    return project.rows("letters.jsonl", lines)


def test_a_planted_overfit_is_blocked_by_task_gain_and_told_from_which_step_it_overfits(tmp_path: Path) -> None:
    """The base is a model that learned how often each letter comes, which is all that there is to learn."""
    project = make_project(tmp_path / "project")
    project.accepted(unlearnable(project), project.recipe(steps=50, variant="full"), "acme.letters")
    training = {"learning_rate": 0.01, "validate_every_steps": 20, "schedule": "constant"}
    greedy = project.recipe(
        "acme.greedy.v1", steps=STEPS, base="artifact:acme.letters.v1|tiny.v1", variant="full", training=training
    )
    ended = project.tune("acme.letters.v1", greedy)
    assert ended.outcome.status is SubmissionStatus.REJECTED, ended.outcome.reason
    assert ended.outcome.reason.startswith("task_gain: fail, perplexity ")
    (entry,) = project.store.entries(f"acme/{FOLDER}")
    record = RejectionRecord.get(project.store, entry.path)
    assert {verdict.gate for verdict in record.verdicts if not verdict.lets_through} == {"task_gain"}
    first = record.tried_next[0]
    step = first.change["training.max_steps"]
    assert 20 <= step < STEPS
    assert step % 20 == 0, "a step at which the training was validated"
    assert f"it overfits from step {step}: validation loss was lowest" in first.why
    assert ended.outcome.suggestions == record.suggestions
    said = CliRunner().invoke(app, ["status", ended.submission.id], env=project.environment)
    assert f"try       stop at step {step} (training.max_steps: {step}): it overfits from step {step}" in said.stdout


@pytest.fixture(scope="module")
def project(accepted: Journey, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the journey of an accepted pair, whose dataset and base the recipes of the kept weights train."""
    return copied(accepted, tmp_path_factory.mktemp("kept") / "project").project


def taken(artifacts: Artifacts, adapter: Artifact, best: int) -> None:
    """The adapter has the weights of its training after step ``best`` of 12."""
    assert (adapter.facts["step"], adapter.facts["steps"]) == (best, 12)
    checkpoint = artifacts.get(Address.parse(adapter.manifest.inputs["checkpoint"].address))
    folder = "final" if best == 12 else f"kept/{best:06d}"
    weights = checkpoint.manifest.files[f"{folder}/adapter_model.safetensors"]
    assert adapter.manifest.files["adapter_model.safetensors"].sha256 == weights.sha256


def test_with_kept_weights_the_ones_with_the_lowest_validation_loss_become_the_adapter(
    project: Project, accepted: Journey
) -> None:
    recipe = project.recipe("kept.v1", steps=12, training=KEPT, evaluation={"candidate": "best_validation"})
    artifacts, adapter = Artifacts(project.store), project.accepted(accepted.dataset, recipe)
    checkpoint = artifacts.get(Address.parse(adapter.manifest.inputs["checkpoint"].address))
    losses = dict(checkpoint.facts["validation_loss"])
    best = min(losses, key=lambda step: (losses[step], -step))
    taken(artifacts, adapter, best)
    assert f"| weights | after step {best} of 12, by validation loss |" in adapter.read("README.md").decode()
    assert len([name for name in checkpoint.manifest.files if name.startswith("kept/")]) == 4


def test_with_a_validation_suite_the_weights_that_score_highest_on_it_become_the_adapter(
    project: Project, accepted: Journey, tmp_path: Path
) -> None:
    colours = ["red", "green", "blue", "grey"]
    items = [{"question": f"stone {number} is", "choices": colours, "answer": number % 4} for number in range(16)]
    add_suite(project.store, write_choice_suite(project.folder / "dev", "dev", items), "dev.v1", "ann")
    recipe = project.recipe(
        "sure.v1",
        steps=12,
        training=KEPT,
        evaluation={"candidate": "best_suite", "validation_suite": {"suite": "dev.v1"}},
    )
    artifacts, adapter = Artifacts(project.store), project.accepted(accepted.dataset, recipe)
    checkpoint, report = (
        artifacts.get(Address.parse(adapter.manifest.inputs[name].address)) for name in ("checkpoint", "eval_report")
    )
    # Chosen once more from what the report keeps of each item, and not by the project's own rule.
    _, columns = read_suite_samples(report.path("samples/choice.parquet", tmp_path))
    losses = dict(checkpoint.facts["validation_loss"])
    steps = [*(step for step, _ in checkpoint.facts["kept"]), 12]
    assert len(steps) == 3
    best = max(steps, key=lambda step: (sum(columns[f"score_{step}"]), -losses[step], step))
    taken(artifacts, adapter, best)
    card = adapter.read("README.md").decode()
    assert f"| weights | after step {best} of 12, by dev.v1 (acc {sum(columns[f'score_{best}']) / 16:.1%} of 16" in card
    tree = json.loads(adapter.read("lineage.json"))
    assert tree["step"] == best
    assert "validation:dev.v1" in tree["inputs"]["eval_report"]["inputs"]
    assert "validation:dev.v1" not in tree["inputs"]["eval_report"]["inputs"]["baseline"]["inputs"]
    assert not verify(artifacts, adapter.address).findings
    suite = artifacts.get(Address.parse(report.manifest.inputs["validation:dev.v1"].address))
    path = suite.location("items.jsonl")
    project.store.put(path, project.store.get(path).replace(b"stone", b"stole", 1))
    assert any("items.jsonl" in finding for finding in verify(artifacts, adapter.address).findings)
