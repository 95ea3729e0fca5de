"""Real data, benchmarks and models through the whole graph to their verdicts, whatever they are."""

import json
import os
import shutil
from pathlib import Path

import pytest

from ft_assets.control import identity
from ft_assets.demo.dataset import build_demo_dataset
from ft_assets.records.submissions import SubmissionStatus
from ft_assets.workers.evals.gates import passed
from ft_assets.workers.evals.verdicts import judge_candidate, load_evidence
from ft_assets.workers.suites.suites import add_suite
from ft_resources.artifacts import Artifacts
from tests.choice_suite import write_choice_suite
from tests.e2e.project import ROOT, make_project
from tests.workers.evals.real_suites import NAMES, make_suite

# In each `make test` each suite's items, prompts and scores are compared with lm-eval's, real rows are curated and
# packed, and test_newcomer.py takes real text through the graph.
pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.realdata]

# The model was trained on plain stories, so the recipe brings the template.
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'assistant' %}"
    "{{ 'A: ' }}{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}"
    "{% else %}{{ 'Q: ' + message['content'] + '\\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'A: ' }}{% endif %}"
)
ROWS, ITEMS = 1500, 150
# The demo's model has a context of 512 tokens.
SHORTER = {"gsm8k": 64, "ifeval": 64}


def test_gsm8k_and_a_real_model_reach_their_verdicts(tmp_path: Path) -> None:
    data = Path(os.environ["FT_REAL_DATA"])
    project = make_project(tmp_path / "project")
    shutil.copytree(data / "stories260K-hf", project.folder / "stories", ignore=shutil.ignore_patterns("greedy*"))
    (project.folder / "template.jinja").write_text(TEMPLATE)
    add_suite(project.store, arc_suite(project.folder / "arc", data), "arc-easy.v1", "test")
    with (data / "gsm8k" / "train.jsonl").open() as file:
        rows = [json.loads(line) for line, _ in zip(file, range(ROWS), strict=False)]
    dataset = project.folder / "gsm8k.jsonl"
    lines = ({"prompt": row["question"], "completion": row["answer"].split("#### ")[1]} for row in rows)
    dataset.write_text("".join(json.dumps(line) + "\n" for line in lines))
    recipe = project.recipe(
        "maths.v1",
        base="folder:./stories",
        chat_template="template.jinja",
        training={"max_steps": 12, "learning_rate": 0.003},
        packing={"max_length": 512, "overlong": "drop"},
        evaluation={"suites": ["arc-easy.v1"], "holdout": {"max_samples": 40, "max_new_tokens": 8}},
        gates={"benchmark_regression": {"max_drop_points": 2.0}, "task_gain": {"metric": "exact_match"}},
    )
    result = project.tune(dataset, recipe, "school.gsm8k")

    assert result.outcome.status in (SubmissionStatus.ACCEPTED, SubmissionStatus.REJECTED), result.outcome.reason
    artifacts = Artifacts(project.store)
    request = identity.adapter_request(artifacts, "school.gsm8k.v1", "maths.v1")
    verdicts = {verdict.gate: verdict for verdict in judge_candidate(artifacts, request.inputs, request.params)}
    required = {name for name, verdict in verdicts.items() if verdict.outcome != "not required"}
    assert required == {"regression", "task_gain"}
    accepted = passed(verdicts.values())
    assert (artifacts.find(request.address) is not None) == accepted
    assert accepted == (result.outcome.status is SubmissionStatus.ACCEPTED)
    # The numbers behind the verdicts are measured ones.
    arc = verdicts["regression"].numbers["arc-easy.v1"]
    assert arc["n"] == ITEMS
    print({name: (verdict.outcome, verdict.reason) for name, verdict in verdicts.items()})


def test_real_benchmarks_and_the_demos_model_reach_their_verdicts(tmp_path: Path) -> None:
    data, limit = Path(os.environ["FT_REAL_DATA"]), 12
    project = make_project(tmp_path / "project")
    # Programs that a model wrote need a sandbox, which not every machine has: test_real_suites runs those.
    names = [name for name in NAMES if name != "humaneval"]
    for name in names:
        folder = make_suite(name, data, tmp_path / "suites" / name, longest=SHORTER.get(name))
        add_suite(project.store, folder, f"{key_of(name)}.v1", "test")
    add_suite(project.store, make_suite("care", data, tmp_path / "suites" / "care"), "care.v1", "test")
    suites = [f"{key_of(name)}.v1" for name in names]
    recipe = project.recipe(
        "broad.v1",
        base=f"folder:{ROOT / 'ft_assets' / 'demo' / 'base'}",
        steps=12,
        packing={"max_length": 512},
        evaluation={
            "suites": [*suites, "care.v1"],
            "suite_limit": limit,
            "holdout": {"max_samples": 40, "max_new_tokens": 24},
        },
        gates={
            "benchmark_regression": {"max_drop_points": 2.0, "margin_points": 1.0},
            "task_gain": {"metric": "exact_match"},
            "safety": {},
        },
    )
    rows = build_demo_dataset(tmp_path / "docs.jsonl").path
    result = project.tune(rows, recipe, "school.docs")

    # A model that has read old novels refuses nothing, so whatever it learned it is not let through.
    assert result.outcome.status is SubmissionStatus.REJECTED, result.outcome.reason
    artifacts = Artifacts(project.store)
    request = identity.adapter_request(artifacts, "school.docs.v1", "broad.v1")
    verdicts = {verdict.gate: verdict for verdict in judge_candidate(artifacts, request.inputs, request.params)}
    required = {name for name, verdict in verdicts.items() if verdict.outcome != "not required"}
    assert required == {"regression", "task_gain", "safety"}
    assert verdicts["safety"].outcome == "fail"
    counted = {key: verdicts["regression"].numbers[key]["n"] for key in suites}
    # Prompts that leave no room for an answer are not counted, and only IFEval's are not cut.
    assert 0 < counted.pop("ifeval.v1") <= limit
    assert set(counted.values()) == {limit}
    evidence = load_evidence(identity.eval_report(artifacts, "school.docs.v1", "broad.v1"))
    assert {name: counted.n for name, counted in evidence.safety.items()} == {"refusals": limit, "over_refusals": limit}
    assert artifacts.find(request.address) is None
    print({name: (verdict.outcome, verdict.reason) for name, verdict in verdicts.items()})


def key_of(name: str) -> str:
    return name.replace("_", "-")


def arc_suite(folder: Path, data: Path) -> Path:
    """A multiple-choice task over ARC-Easy items with four options."""
    with (data / "eval_compact" / "arc_easy.jsonl").open() as file:
        items = [line["doc"] for line in map(json.loads, file) if len(line["doc"]["choices"]) == 4][:ITEMS]
    return write_choice_suite(folder, "arc_easy", items, doc_to_text="{{query}}", doc_to_target="gold")
