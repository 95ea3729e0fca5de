"""Suites of every kind through baseline and evaluation: paired by item, judged by the regression gate, shown."""

import json
from pathlib import Path

import pytest

from ft_assets.workers.evals import stop_sequences as until
from ft_assets.workers.evals.evaluate import evaluate
from ft_assets.workers.evals.model import LoadedModel
from ft_assets.workers.evals.samples import read_suite_samples
from ft_assets.workers.evals.verdicts import judge_candidate, load_evidence
from ft_assets.workers.suites.registered import role_of
from ft_assets.workers.suites.suites import add_suite
from ft_resources.artifacts import Address, Artifact
from ft_resources.errors import UserError
from ft_resources.work import WorkRequest
from tests.workers.evals.test_generated import sums, truthful
from tests.workers.evals.test_golden import write_golden
from tests.workers.evals.test_instructions import ITEM, write_suite
from tests.workers.evals.world import World, evaluation, written

pytestmark = pytest.mark.training
SETTINGS = {"seed": 17, "limit": None, "chat_template": None}


def suites(world: World) -> dict[str, Artifact]:
    """One suite of each kind by input name, registered as a user does."""
    folder = world.folder / "suites"
    prompts = [{"prompt": f"Where is thing {number}?", "expected": "here"} for number in range(40)]
    made = {
        "sums.v1": sums(folder / "sums", 40),
        "truthful.v1": truthful(folder / "truthful"),
        "follow.v1": write_suite(
            folder / "follow", *({**ITEM, "key": n, "prompt": f"Say {n}."} for n in range(40)), max_new_tokens=16
        ),
        "ours.v1": write_golden(folder / "ours", *prompts, {"prompt": "And why is that?"}, max_new_tokens=16),
        "looks.v1": write_golden(folder / "looks", {"prompt": "How do you do?"}, max_new_tokens=16),
    }
    found = {}
    for key, path in made.items():
        done = add_suite(world.store, path, key, "test")
        found[f"{role_of(done.ref)}:{key}"] = world.artifacts.get(Address.parse(done.ref.address))
    return found


def baseline_of(world: World, named: dict[str, Artifact]) -> Artifact:
    request = world.request(
        "baseline_report", tenant="shared", inputs={"base": world.base(), **named}, params={"settings": SETTINGS}
    )
    return world.baseline(request)


def report_request(world: World, baseline: Artifact, named: dict[str, Artifact], **params: object) -> WorkRequest:
    inputs = {
        "checkpoint": world.checkpoint(world.base(), strength=0.5),
        "base": world.base(),
        "baseline": baseline,
        "dataset": world.dataset(),
        **named,
    }
    settings = {"evaluation": evaluation(), "variant": "lora", "chat_template": None, **params}
    return world.request("eval_report", inputs=inputs, params=settings)


def say(monkeypatch: pytest.MonkeyPatch, number: str, chat: str) -> None:
    """From here on every model writes ``number`` after a plain question and says ``chat`` in a conversation."""

    def made(loaded: LoadedModel, prompts: list[list[int]], *rest: object) -> list[list[int]]:
        return [loaded.tokenizer(number)["input_ids"] for _ in prompts]

    monkeypatch.setattr(until, "generate", made)
    monkeypatch.setattr("ft_assets.workers.evals.asking.write_answers", written(lambda *_: chat))


def test_every_kind_is_paired_with_the_base_judged_and_shown(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    named = suites(world)
    assert "shown:looks.v1" in named
    say(monkeypatch, " It is #### 2000", "here")
    baseline = baseline_of(world, named)
    assert baseline.facts["scores"]["ours.v1"] == {"metric": "golden", "value": 1.0, "n": 40, "also": {"too_long": 0.0}}
    assert baseline.facts["scores"]["sums.v1"]["value"] == 1 / 40
    assert "looks.v1" not in baseline.facts["scores"]
    say(monkeypatch, " It is #### 2001", "there, not where")
    request = report_request(world, baseline, named)
    report = world.publish_result(request, evaluate(world.context(request)))

    evidence = load_evidence(report)
    assert set(evidence.suites) == {"sums.v1", "truthful.v1", "follow.v1", "ours.v1"}
    assert (evidence.suites["ours.v1"].base, evidence.suites["ours.v1"].candidate) == (1.0, 0.0)
    assert (evidence.suites["follow.v1"].base, evidence.suites["follow.v1"].candidate) == (1.0, 0.0)
    assert evidence.suites["follow.v1"].also["instruction_loose"].base == 1.0
    assert evidence.suites["follow.v1"].also["instruction_loose"].candidate == 0.0
    assert evidence.suites["sums.v1"].difference_points == 0
    # A share of probability is no 0 or 1, and two models differ in it.
    truth = evidence.suites["truthful.v1"]
    assert truth.metric == "mc2"
    assert 0 < truth.base < 1
    assert truth.base != truth.candidate

    ours = {name: world.artifacts.get(Address.parse(ref.address)) for name, ref in request.inputs.items()}
    wanted = world.adapter_request(ours["base"], ours["checkpoint"], report)
    general = {**wanted.params, "suites": ["ours.v1"]}
    verdicts = {verdict.gate: verdict for verdict in judge_candidate(world.artifacts, wanted.inputs, general)}
    assert verdicts["regression"].outcome == "fail"
    assert "ours.v1: golden 100.0% → 0.0% on 40 items, a drop of 100.0 points" in verdicts["regression"].reason

    ids, columns = read_suite_samples(report.path("samples/ours.v1.parquet", tmp_path))
    assert len(ids) == 40
    assert (columns["base_answer"][0], columns["candidate_answer"][0]) == ("here", "there, not where")
    shown = read_suite_samples(report.path("samples/looks.v1-shown.parquet", tmp_path))
    assert shown[1] == {"base_answer": ("here",), "candidate_answer": ("there, not where",)}
    page = report.read("report/report.html").decode()
    assert "ours.v1: items where the candidate is worse (40)" in page
    assert "sums.v1: items where the candidate is worse (1)" in page
    assert "sums.v1: items where the candidate is better (1)" in page
    assert "looks.v1: answers side by side (1)" in page
    assert "How do you do?" in page
    assert "And why is that?" in page
    assert "instruction_loose" in page
    # Prompts and answers stay on the page and in the samples.
    for told in (report.read("report.json").decode(), json.dumps(report.facts), json.dumps(baseline.facts)):
        assert "thing" not in told
        assert "there" not in told


def test_a_baseline_of_another_template_is_refused_where_a_suite_asks_through_it(world: World) -> None:
    named = suites(world)
    inputs = {"base": world.base(), **named}
    made = {
        "baseline_report": world.publish(
            "baseline_report", {"report.json": b"{}"}, tenant="shared", inputs=inputs, params={"settings": SETTINGS}
        )
    }
    request = report_request(world, made["baseline_report"], named, chat_template="{{ messages }}")
    with pytest.raises(UserError, match="measured with another chat_template"):
        evaluate(world.context(request))
