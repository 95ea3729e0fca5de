"""An interrupted evaluation continues after its finished suites, and several processes give the same scores."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ft_assets.workers.evals import runner
from ft_assets.workers.evals.fan_out import SuiteJob, devices_for, score_suites
from ft_assets.workers.evals.suite_saves import SuiteSaves
from ft_assets.workers.suites.score import Said, SuiteScore, suite_score
from ft_resources.artifacts import Artifact
from ft_resources.errors import BadRecipe
from ft_resources.worker_context import Preempted, WorkContext
from tests.warm_workers.fixture import warm as warm
from tests.workers.evals.world import World

pytestmark = [pytest.mark.training, pytest.mark.usefixtures("warm")]
KEYS = ["first.v1", "second.v1", "third.v1"]


@pytest.fixture
def inputs(world: World) -> dict[str, Artifact]:
    # The later in the alphabet, the larger: the third is scored first.
    suites = {f"suite:{key}": world.suite(8 * number) for number, key in enumerate(KEYS, start=1)}
    return {"base": world.base(), **suites}


def started(
    world: World, inputs: dict[str, Artifact], attempt: int = 1, **changes: Any
) -> tuple[WorkContext, SuiteJob]:
    request = world.request("baseline_report", tenant="shared", inputs=inputs)
    context = world.context(request, attempt)
    job = SuiteJob(
        spec=context.spec,
        base=context.folder("base"),
        weights=None,
        full=False,
        suites={key: inputs[f"suite:{key}"].folder(context.scratch / "inputs") for key in KEYS},
        seed=3,
        limit=None,
        template=None,
    )
    return context, job


def count(monkeypatch: pytest.MonkeyPatch, stop_at: str = "") -> list[str]:
    """The suites that this process scores; at ``stop_at`` a stop request comes, half-way."""
    scored: list[str] = []
    stock = runner.score_suite

    def score_suite(loaded: Any, key: str, *rest: Any) -> SuiteScore:
        scored.append(key)
        found = stock(loaded, key, *rest)
        if key == stop_at:
            raise Preempted
        return found

    monkeypatch.setattr(runner, "score_suite", score_suite)
    return scored


def test_an_interrupted_evaluation_goes_on_behind_the_suites_that_are_done(
    world: World, inputs: dict[str, Artifact], monkeypatch: pytest.MonkeyPatch
) -> None:
    context, job = started(world, inputs)
    with monkeypatch.context() as patch:
        scored = count(patch, stop_at="second.v1")
        with pytest.raises(Preempted):
            score_suites(context, job.load(), job)
    assert scored == ["third.v1", "second.v1"]
    scored = count(monkeypatch)
    context, job = started(world, inputs, attempt=2)
    resumed = score_suites(context, job.load(), job)
    assert scored == ["second.v1", "first.v1"]
    assert list(resumed) == KEYS
    assert {key: score.n for key, score in resumed.items()} == {"first.v1": 8, "second.v1": 16, "third.v1": 24}
    assert resumed == runner.score_loaded(job.load(), job.suites, seed=3, limit=None, progress=lambda *_: None)


def test_a_save_of_another_suite_or_one_that_cannot_be_read_is_scored_again(
    world: World, inputs: dict[str, Artifact], monkeypatch: pytest.MonkeyPatch
) -> None:
    context, job = started(world, inputs)
    score_suites(context, job.load(), job)
    saves = f"{context.spec.attempt_path}/saves/suites"
    broken = world.store.get_json(f"{saves}/first.v1.json")
    world.store.put_json(f"{saves}/first.v1.json", {**broken, "correct": broken["correct"][1:]})
    world.store.put(f"{saves}/second.v1.json", b"{")
    third = world.store.get_json(f"{saves}/third.v1.json")
    world.store.put_json(f"{saves}/third.v1.json", {**third, "suite": "0" * 64})
    scored = count(monkeypatch)
    context, job = started(world, inputs, attempt=2)
    assert score_suites(context, job.load(), job)["third.v1"].n == 24
    assert sorted(scored) == KEYS


def run_beside(job: SuiteJob, folder: Path, rank: int) -> "subprocess.Popen[bytes]":
    (folder / "claims").mkdir(parents=True, exist_ok=True)
    (folder / "job.json").write_text(job.model_dump_json())
    command = [sys.executable, "-m", "ft_assets.workers.evals.suite_process", str(folder), str(rank)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=dict(os.environ))


def test_several_processes_score_each_suite_once_and_find_what_one_process_finds(
    world: World, inputs: dict[str, Artifact], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ft_assets.workers.evals.fan_out.devices_for", lambda suites, runtime: ["", ""])
    context, job = started(world, inputs)
    # This process leaves the others to the one that it starts.
    claim = SuiteSaves.claim
    monkeypatch.setattr(SuiteSaves, "claim", lambda saves, key: key == "first.v1" and claim(saves, key))
    scored = count(monkeypatch)
    scores = score_suites(context, job.load(), job)
    assert scored == ["first.v1"]
    assert sorted(path.name for path in (context.scratch / "suites" / "claims").iterdir()) == KEYS
    assert list(scores) == KEYS
    assert scores == runner.score_loaded(job.load(), job.suites, seed=3, limit=None, progress=lambda *_: None)


def test_what_a_process_of_a_fan_out_raises_is_what_the_worker_raises(
    world: World, inputs: dict[str, Artifact], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ft_assets.workers.evals.fan_out.devices_for", lambda suites, runtime: ["", ""])
    monkeypatch.setattr(SuiteSaves, "claim", lambda saves, key: False)
    context, job = started(world, inputs)
    broken = context.scratch / "broken"
    broken.mkdir()
    (broken / "task.yaml").write_text((job.suites["first.v1"] / "task.yaml").read_text())
    items = [json.loads(line) for line in (job.suites["first.v1"] / "items.jsonl").read_text().splitlines()]
    (broken / "items.jsonl").write_text("\n".join(json.dumps({**item, "answer": 9}) for item in items))
    job = job.model_copy(update={"suites": {**job.suites, "first.v1": broken}})
    with pytest.raises(BadRecipe, match=r"first\.v1.*do not fit this item"):
        score_suites(context, job.load(), job)


def test_a_process_that_is_killed_is_no_score(
    world: World, inputs: dict[str, Artifact], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ft_assets.workers.evals.fan_out.devices_for", lambda suites, runtime: ["", ""])
    context, job = started(world, inputs)
    loaded = job.load()

    def kill(saves: SuiteSaves, key: str) -> bool:
        begun = context.scratch / "suites" / "begun-1"
        while not begun.exists() or not begun.read_text():
            pass
        os.kill(int(begun.read_text()), signal.SIGKILL)
        return False

    monkeypatch.setattr(SuiteSaves, "claim", kill)
    with pytest.raises(Preempted):
        score_suites(context, loaded, job)


def test_a_process_ends_with_its_worker(world: World, inputs: dict[str, Artifact]) -> None:
    context, job = started(world, inputs)
    process = run_beside(job, context.scratch / "suites", 1)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 1


def test_a_saved_score_comes_back_as_it_was(world: World, inputs: dict[str, Artifact]) -> None:
    context, _ = started(world, inputs)
    said = [Said(question="q", target="t", answer=f"ä{number}") for number in range(3)]
    score = suite_score(
        "acc", ["a", "b", "c"], [1 / 3, 0.1, 1.0], said, where="", also={"x": 0.1}, shown={"s": said[0]}
    )
    saves = SuiteSaves.of(world.store, context.spec)
    saves.save("first.v1", score)
    assert saves.find("first.v1") == score
    saves.save("first.v1", suite_score("acc", ["a"], [0.0], [], where=""))
    assert saves.find("first.v1") == score


def test_no_more_processes_than_gpus_suites_and_what_the_recipe_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    assert devices_for(9, {"processes": 3}) == ["0", "1", "2"]
    assert devices_for(2, {"processes": 8}) == ["0", "1"]
    assert devices_for(9, {}) == ["0"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,GPU-7")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert devices_for(9, {"processes": 8}) == ["5", "GPU-7"]
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert len(devices_for(9, {"processes": 8})) <= 1
