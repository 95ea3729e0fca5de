"""Real benchmarks, most of them of the catalogue, on a real model: base and candidate."""

import json
import os
import shutil
from pathlib import Path

import pytest

from ft_assets.workers.evals.baseline import score_baseline
from ft_assets.workers.evals.evaluate import evaluate
from ft_assets.workers.evals.verdicts import load_evidence
from ft_assets.workers.suites.kinds import code
from ft_assets.workers.suites.kinds.sandbox import SandboxUnavailable, require_sandbox, run_program
from ft_assets.workers.suites.suites import add_suite
from ft_resources.artifacts import Address, Artifact
from ft_resources.store_marker import open_store
from tests.e2e.test_real_data import TEMPLATE
from tests.workers.evals.real_suites import NAMES, make_suite
from tests.workers.evals.world import World, evaluation

pytestmark = [
    pytest.mark.e2e,
    # Each suite's items, prompts and scores are compared with lm-eval's in each `make test`.
    pytest.mark.long,
    pytest.mark.realdata,
]
ITEMS = {
    "arc_challenge": 1147,
    "gsm8k": 1319,
    "hellaswag": 990,
    "humaneval": 164,
    "ifeval": 541,
    "mmlu": 14_042,
    "truthfulqa_mc1": 817,
    "truthfulqa_mc2": 817,
}
LIMIT = 6
# The model's context is 512 tokens of a few letters each: answers as long as the benchmarks allow leave no room.
SHORT = {"gsm8k": 48, "ifeval": 48, "humaneval": 48}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(store=open_store(str(tmp_path / "store"), create=True), folder=tmp_path)


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether programs can be contained here."""
    monkeypatch.setenv("FT_RUN_CODE", "sandbox")
    try:
        require_sandbox()
    except SandboxUnavailable as error:
        print(f"HumanEval is left out: {error}")
        return False
    return True


def test_real_benchmarks_run_on_a_real_model_and_its_candidate(tmp_path: Path, world: World, allowed: bool) -> None:
    data = Path(os.environ["FT_REAL_DATA"])
    named: dict[str, Artifact] = {}
    for name in NAMES:
        folder = make_suite(name, data, tmp_path / "suites" / name, longest=SHORT.get(name))
        done = add_suite(world.store, folder, f"{name.replace('_', '-')}.v1", "test")
        assert done.items == ITEMS[name]
        if name != "humaneval" or allowed:
            key = done.key
            named[f"suite:{key}"] = world.artifacts.get(Address.parse(done.ref.address))
    model = shutil.copytree(data / "stories260K-hf", tmp_path / "model", ignore=shutil.ignore_patterns("greedy*"))
    base = world.publish("base_model", model, tenant="shared")
    settings = {"seed": 17, "limit": LIMIT, "chat_template": TEMPLATE}
    request = world.request(
        "baseline_report", tenant="shared", inputs={"base": base, **named}, params={"settings": settings}
    )
    baseline = world.publish_result(request, score_baseline(world.context(request)))
    # The candidate is the base once more, as whole weights: what is scored twice is equal twice.
    checkpoint = world.publish(
        "checkpoint", {f"final/{p.name}": p.read_bytes() for p in model.iterdir() if p.is_file()}
    )
    report = world.request(
        "eval_report",
        inputs={"checkpoint": checkpoint, "base": base, "baseline": baseline, "dataset": world.dataset(), **named},
        params={"evaluation": evaluation(suite_limit=LIMIT), "variant": "full", "chat_template": TEMPLATE},
    )
    evidence = load_evidence(world.publish_result(report, evaluate(world.context(report))))

    assert set(evidence.suites) == {name.partition(":")[2] for name in named}
    print({key: (suite.metric, suite.n, suite.base, suite.also) for key, suite in evidence.suites.items()})
    for key, suite in evidence.suites.items():
        assert 1 <= suite.n <= LIMIT, key
        assert suite.base == suite.candidate == baseline.facts["scores"][key]["value"], key
    # A share of probability, and neither 0 nor 1.
    assert 0 < evidence.suites["truthfulqa-mc2.v1"].base < 1
    assert evidence.suites["ifeval.v1"].also["instruction_loose"].candidate >= evidence.suites["ifeval.v1"].base
    if allowed:
        assert evidence.suites["humaneval.v1"].metric == "pass@1"


def test_the_authors_own_solutions_pass_their_tests_in_the_sandbox(allowed: bool) -> None:
    if not allowed:
        pytest.skip("this machine cannot contain programs")
    source = Path(os.environ["FT_REAL_DATA"]) / "humaneval" / "HumanEval.jsonl"
    task = code.CodeTask(kind="code", file=source.name)
    items = code.read(task, {source.name: source}, "here")
    solutions = [json.loads(line)["canonical_solution"] for line in source.read_text().splitlines()]
    # Every eighth: each is a process of its own.
    chosen = list(zip(items, solutions, strict=True))[::8]

    def state(item: code.CodeItem, solution: str) -> str:
        limits = code.Limits(timeout_s=20.0)
        return run_program(item.program(solution), limits, tests=item.tests, names=item.names)

    states = {item.id: state(item, solution) for item, solution in chosen}
    assert set(states.values()) == {"passed"}, states
    empty = {item.id: state(item, "    pass\n") for item, _ in chosen[:4]}
    assert set(empty.values()) == {"failed"}, empty
