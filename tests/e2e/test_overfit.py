"""A planted overfit: answers that only learning by heart can give, read many times over."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from ft_assets.api import fine_tune
from ft_assets.control.lines.verify import verify
from ft_assets.control.rejections.record import FOLDER, RejectionRecord
from ft_assets.graph.orchestrator import Dagster
from ft_assets.records.submissions import SubmissionStatus
from ft_assets.workers.evals.samples import read_suite_samples
from ft_assets.workers.suites.suites import add_suite
from ft_resources.artifacts import Address, Artifact, Artifacts
from tests.e2e.project import Project, make_project

pytestmark = pytest.mark.e2e
STEPS = 220


def unlearnable(path: Path, rows: int = 200) -> Path:
    """Questions whose answers follow from nothing: whatever a model is sure of on other rows is wrong."""
    draw = random.Random(5)
    lines = []
    for number in range(rows):
        question = {"role": "user", "content": f"the letter of {chr(0x4E00 + number)}"}
        lines.append({"messages": [question, {"role": "assistant", "content": draw.choice("abcdefghijklmnop")}]})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_planted_overfit_is_blocked_by_task_gain_and_told_from_which_step_it_overfits(tmp_path: Path) -> None:
    """The base is a model that learned how often each letter comes, which is all that there is to learn."""
    project = make_project(tmp_path / "project")
    instance = project.instance()
    plain = fine_tune(
        unlearnable(project.folder / "letters.jsonl"),
        project.recipe(steps=50, variant="full"),
        name="acme.letters",
        store=project.store,
        orchestrator=Dagster(instance),
        actor="ann",
    )
    assert plain.outcome.status is SubmissionStatus.ACCEPTED, plain.outcome.reason
    training = {"learning_rate": 0.01, "validate_every_steps": 20, "schedule": "constant"}
    greedy = project.recipe(
        "acme.greedy.v1", steps=STEPS, base="artifact:acme.letters.v1|tiny.v1", variant="full", training=training
    )
    ended = fine_tune("acme.letters.v1", greedy, store=project.store, orchestrator=Dagster(instance), actor="ann")
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
    said = subprocess.run(
        [sys.executable, "-c", "from ft_assets.cli.main import app; app()", "status", ended.submission.id],
        env=project.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"try       stop at step {step} (training.max_steps: {step}): it overfits from step {step}" in said.stdout


def accepted(project: Project, recipe: Path) -> tuple[Artifacts, Artifact]:
    """The artifacts and the adapter that the project's dataset makes with the recipe."""
    made = fine_tune(
        project.dataset(),
        recipe,
        name="acme.things",
        store=project.store,
        orchestrator=Dagster(project.instance()),
        actor="ann",
    )
    assert made.outcome.status is SubmissionStatus.ACCEPTED, made.outcome.reason
    artifacts = Artifacts(project.store)
    return artifacts, artifacts.get(Address.parse(made.outcome.adapter))


def test_with_kept_weights_the_ones_with_the_lowest_validation_loss_become_the_adapter(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    recipe = project.recipe(
        steps=12,
        training={"learning_rate": 0.2, "validate_every_steps": 3, "keep_best": 2, "schedule": "constant"},
        evaluation={"candidate": "best_validation"},
    )
    artifacts, adapter = accepted(project, recipe)
    checkpoint = artifacts.get(Address.parse(adapter.manifest.inputs["checkpoint"].address))
    losses = dict(checkpoint.facts["validation_loss"])
    best = min(losses, key=lambda step: (losses[step], -step))
    assert (adapter.facts["step"], adapter.facts["steps"]) == (best, 12)
    folder = "final" if best == 12 else f"kept/{best:06d}"
    weights = checkpoint.manifest.files[f"{folder}/adapter_model.safetensors"]
    assert adapter.manifest.files["adapter_model.safetensors"].sha256 == weights.sha256
    assert f"| weights | after step {best} of 12, by validation loss |" in adapter.read("README.md").decode()
    assert len([name for name in checkpoint.manifest.files if name.startswith("kept/")]) == 4


def test_with_a_validation_suite_the_weights_that_score_highest_on_it_become_the_adapter(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    colours = ["red", "green", "blue", "grey"]
    items = [{"question": f"stone {number} is", "choices": colours, "answer": number % 4} for number in range(16)]
    dev = project.folder / "dev"
    dev.mkdir()
    (dev / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    (dev / "task.yaml").write_text((project.folder / "suite" / "colours.yaml").read_text())
    add_suite(project.store, dev, "dev.v1", "ann")
    recipe = project.recipe(
        steps=12,
        training={"learning_rate": 0.2, "validate_every_steps": 3, "keep_best": 2, "schedule": "constant"},
        evaluation={"candidate": "best_suite", "validation_suite": {"suite": "dev.v1"}},
    )
    artifacts, adapter = accepted(project, recipe)
    checkpoint, report = (
        artifacts.get(Address.parse(adapter.manifest.inputs[name].address)) for name in ("checkpoint", "eval_report")
    )
    # Chosen once more from what the report keeps of each item, and not by the project's own rule.
    _, columns = read_suite_samples(report.path("samples/choice.parquet", tmp_path))
    losses = dict(checkpoint.facts["validation_loss"])
    steps = [*(step for step, _ in checkpoint.facts["kept"]), 12]
    assert len(steps) == 3
    best = max(steps, key=lambda step: (sum(columns[f"score_{step}"]), -losses[step], step))
    assert (adapter.facts["step"], adapter.facts["steps"]) == (best, 12)
    folder = "final" if best == 12 else f"kept/{best:06d}"
    weights = checkpoint.manifest.files[f"{folder}/adapter_model.safetensors"]
    assert adapter.manifest.files["adapter_model.safetensors"].sha256 == weights.sha256
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
