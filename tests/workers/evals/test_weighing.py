"""A small suite chooses among a training's weights: what is then measured, exported, refused and resumed."""

import json
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from ft_assets.workers.adapters.export import measured_weights
from ft_assets.workers.evals import runner
from ft_assets.workers.evals.evaluate import evaluate
from ft_assets.workers.evals.evidence import BadEvidence, Evidence
from ft_assets.workers.evals.fan_out import SuiteJob
from ft_assets.workers.evals.remeasure import remeasure
from ft_assets.workers.evals.samples import read_suite_samples
from ft_assets.workers.evals.verdicts import load_evidence
from ft_assets.workers.suites.score import SuiteScore
from ft_resources.artifacts import Artifact
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.work import WorkRequest
from ft_resources.worker_context import Preempted
from tests.workers.evals.test_evaluate import baseline, content, eval_request
from tests.workers.evals.world import SUITE, World, evaluation, lora_files, suite_files

pytestmark = pytest.mark.training
DEV = "dev.v1"
STEPS = (3, 6, 9)
# Of adapters that score differently.
SEEDS = (5, 4, 1)


def other_items(count: int = 20) -> dict[str, bytes]:
    """A suite that shares no item with the gates' suite or the dataset, and favours other weights."""
    draw = random.Random(3)
    words = ["red", "green", "blue", "grey", "pink", "teal", "gold", "navy"]
    lines = [
        {"id": f"dev-{n}", "question": f"the stone {n} is", "choices": draw.sample(words, 4), "answer": n % 4}
        for n in range(count)
    ]
    return {**suite_files(1), "items.jsonl": "".join(json.dumps(line) + "\n" for line in lines).encode()}


def weights_of(seeds: Sequence[int]) -> dict[str, bytes]:
    """Files of a checkpoint that kept the weights after steps 3 and 6 and ended after 9."""
    folders = ("kept/000003", "kept/000006", "final")
    return {
        f"{folder}/{name}": data
        for folder, seed in zip(folders, seeds, strict=True)
        for name, data in lora_files(0.5, seed=seed).items()
    }


class Trained:
    """A training with three weights, and a request to evaluate those that the validation suite chooses."""

    def __init__(
        self, world: World, files: dict[str, bytes] | None = None, losses: Sequence[float] = (1, 2, 3)
    ) -> None:
        self.world, self.base, self.suite = world, world.base(), world.suite()
        self.dev = world.publish("suite", other_items(), tenant="shared", params={"dev": 1})
        facts = {
            "steps": 9,
            "validation_loss": [[step, float(loss)] for step, loss in zip(STEPS, losses, strict=True)],
            "kept": [[step, float(loss)] for step, loss in zip(STEPS[:2], losses[:2], strict=True)],
        }
        self.checkpoint = world.publish(
            "checkpoint",
            files or weights_of(SEEDS),
            inputs={"base": self.base},
            params={"losses": [float(loss) for loss in losses]},
            facts=facts,
        )

    def request(self, dataset: Artifact | None = None, dev: Artifact | None = None, **changes: Any) -> WorkRequest:
        inputs = {
            "checkpoint": self.checkpoint,
            "base": self.base,
            "baseline": baseline(self.world, self.base, self.suite),
            "dataset": dataset or self.world.dataset(),
            "suite": self.suite,
            f"validation:{DEV}": dev or self.dev,
        }
        request = eval_request(self.world, **inputs)
        validation = {"suite": DEV, "limit": None, **changes}
        request.params["evaluation"] = evaluation(candidate="best_suite", validation_suite=validation)
        return request

    def report(self, **changes: Any) -> tuple[Artifact, Evidence]:
        request = self.request(**changes)
        report = self.world.publish_result(request, evaluate(self.world.context(request)))
        return report, load_evidence(report)

    def score(self, prefix: str, suite: Artifact) -> SuiteScore:
        """Of one of the weights alone, as any candidate is scored."""
        context = self.world.context(self.world.request("eval_report", inputs={"base": self.base}))
        job = SuiteJob(
            spec=context.spec,
            base=context.folder("base"),
            weights=self.checkpoint.folder(context.scratch, f"{prefix}/"),
            full=False,
            suites={"any.v1": suite.folder(context.scratch)},
            seed=17,
            limit=None,
            template=None,
        )
        return runner.score_loaded(job.load(), job.suites, seed=17, limit=None, progress=lambda *_: None)["any.v1"]


def test_the_weights_with_the_highest_score_go_to_the_gates_whatever_validation_loss_says(world: World) -> None:
    alone = Trained(world)
    prefixes = ("kept/000003", "kept/000006", "final")
    scores = {step: alone.score(prefix, alone.dev) for step, prefix in zip(STEPS, prefixes, strict=True)}
    best = max(STEPS, key=lambda step: scores[step].value)
    assert len({score.value for score in scores.values()}) == 3, "the seeds give weights that differ"
    # The best of all by the suite is the worst by loss.
    trained = Trained(world, losses=[9.0 if step == best else 1.0 for step in STEPS])
    report, evidence = trained.report()
    assert evidence.chosen is not None
    assert evidence.chosen.by is not None
    assert (evidence.chosen.step, evidence.chosen.steps) == (best, 9)
    assert {each.step: each.score for each in evidence.chosen.by.weights} == {
        step: score.value for step, score in scores.items()
    }
    chosen = prefixes[STEPS.index(best)]
    assert evidence.suites[SUITE].candidate == trained.score(chosen, trained.suite).value
    assert measured_weights(trained.checkpoint, report, evidence).prefix == f"{chosen}/"
    ids, columns = read_suite_samples(report.path("samples/choice.parquet", world.folder))
    for step, score in scores.items():
        assert (ids, columns[f"score_{step}"]) == (score.item_ids, score.correct)
        assert columns[f"answer_{step}"] == tuple(said.answer for said in score.said)
    remeasure(report, evidence)
    page = report.read("report/report.html").decode()
    assert f"after step {best}" in page
    assert DEV not in evidence.suites, "it chooses, and no gate looks at it"


def test_a_report_whose_samples_choose_others_is_no_evidence(world: World) -> None:
    trained = Trained(world)
    report, evidence = trained.report()
    assert evidence.chosen is not None
    assert evidence.chosen.by is not None
    choice = evidence.chosen.by
    raised = [each.model_copy(update={"score": 1.0 if each.step == 3 else 0.0}) for each in choice.weights]
    lied = choice.model_copy(update={"weights": tuple(raised)})
    chosen = evidence.chosen.model_copy(update={"step": 3, "by": lied})
    with pytest.raises(BadEvidence, match="samples of the choice of weights: they give a different score"):
        remeasure(report, evidence.model_copy(update={"chosen": chosen}))
    for other in (None, evidence.chosen.model_copy(update={"by": None})):
        silent = evidence.model_copy(update={"chosen": other})
        with pytest.raises(BadEvidence, match="not chosen by the recipe's validation suite"):
            remeasure(report, silent)
        with pytest.raises(CorruptArtifact, match="no record of how the suite chose"):
            measured_weights(trained.checkpoint, report, silent)
    # Losses break ties, so they are the checkpoint's or the choice is another's.
    moved = Trained(world, losses=(3, 2, 1)).checkpoint
    with pytest.raises(CorruptArtifact, match="weights or validation losses differ"):
        measured_weights(moved, report, evidence)


def test_an_interrupted_choice_goes_on_behind_the_weights_that_are_scored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Trained(world).request()
    quiet = content(evaluate(world.context(request)).folder)
    for entry in list(world.store.entries(f"{request.address}/attempts")):
        world.store.delete(entry.path)
    stock, scored = runner.score_suite, list[str]()

    def score_suite(loaded: Any, key: str, *rest: Any) -> SuiteScore:
        scored.append(key)
        if len(scored) == 2:
            raise Preempted
        return stock(loaded, key, *rest)

    monkeypatch.setattr(runner, "score_suite", score_suite)
    with pytest.raises(Preempted):
        evaluate(world.context(request))
    assert scored == [DEV, DEV]
    resumed = content(evaluate(world.context(request, attempt=2)).folder)
    assert scored == [DEV, DEV, DEV, DEV, SUITE], "two of three were left, and then the gates' suite"
    assert resumed == quiet


def test_scores_saved_of_other_weights_are_not_taken_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost save may be scored differently on another GPU, and then other weights may win."""
    trained = Trained(world)
    request = trained.request()
    evaluate(world.context(request))
    found = [entry.path for entry in world.store.entries(f"{request.address}/attempts") if "/saves/" in entry.path]
    gates = [path for path in found if path.endswith(f"/{SUITE}.json")]
    assert len(found) == 4
    assert len(gates) == 1
    won = gates[0].split("/")[-2]
    lost = next(path for path in found if won not in path)
    saved = world.store.get_json(lost)
    world.store.put_json(lost, {**saved, "correct": [1.0] * saved["n"], "value": 1.0})
    scored: list[str] = []
    stock = runner.score_suite

    def score_suite(loaded: Any, key: str, *rest: Any) -> SuiteScore:
        scored.append(key)
        return stock(loaded, key, *rest)

    monkeypatch.setattr(runner, "score_suite", score_suite)
    evaluate(world.context(request, attempt=2))
    assert scored == [SUITE], "of the weights that win now, and not as they were saved of those that won before"


def test_weights_that_are_not_numbers_are_never_chosen_and_the_report_says_so(world: World) -> None:
    files = weights_of(SEEDS)
    name = "kept/000003/adapter_model.safetensors"
    broken = {key: np.full_like(value, math.nan) for key, value in load(files[name]).items()}
    _, evidence = Trained(world, {**files, name: save(broken, metadata={"format": "pt"})}).report()
    assert evidence.chosen is not None
    assert evidence.chosen.by is not None
    scores = {each.step: each.score for each in evidence.chosen.by.weights}
    assert scores[3] is None
    assert evidence.chosen.step in (6, 9)
    assert None not in (scores[6], scores[9])


def test_where_no_weights_are_numbers_nothing_goes_to_the_gates(world: World) -> None:
    files = weights_of(SEEDS)
    broken = {
        name: save({key: np.full_like(value, math.inf) for key, value in load(data).items()}, metadata={"format": "pt"})
        for name, data in files.items()
        if name.endswith(".safetensors")
    }
    trained = Trained(world, files | broken)
    with pytest.raises(UserError, match="all 3 saved weights produce non-finite numbers"):
        evaluate(world.context(trained.request()))


@pytest.mark.parametrize("name", ["kept/000006/adapter_model.safetensors", "final/adapter_model.safetensors"])
def test_weights_that_cannot_be_read_end_the_evaluation_even_if_others_would_win(world: World, name: str) -> None:
    trained = Trained(world)
    request = trained.request()
    path = trained.checkpoint.location(name)
    world.store.put(path, world.store.get(path)[:-1] + b"\1")
    with pytest.raises(CorruptArtifact, match=rf"{name} of acme/checkpoint/.* does not match its sha256"):
        evaluate(world.context(request))


def test_weights_that_a_checkpoint_only_says_it_kept_are_damage(world: World) -> None:
    files = {name: data for name, data in weights_of(SEEDS).items() if not name.startswith("kept/000006")}
    with pytest.raises(CorruptArtifact, match="lists weights after step 6, but their files are missing"):
        evaluate(world.context(Trained(world, files).request()))


def test_a_suite_with_rows_of_the_holdout_chooses_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SuiteJob, "load", lambda job: pytest.fail("nothing is loaded before"))
    trained = Trained(world)
    lines = other_items()["items.jsonl"].replace(b"the stone 0 is", b"WHAT colour is  thing 50?")
    dev = world.publish("suite", {**other_items(), "items.jsonl": lines}, tenant="shared", params={"dev": 2})
    with pytest.raises(
        UserError, match="1 of its items are also in the dataset's holdout, the first of them is item 1"
    ):
        evaluate(world.context(trained.request(dev=dev)))


def test_a_training_that_kept_nothing_else_has_its_last_weights_and_the_report_shows_their_score(world: World) -> None:
    trained = Trained(world)
    alone = {name: data for name, data in weights_of(SEEDS).items() if name.startswith("final/")}
    trained.checkpoint = world.publish(
        "checkpoint", alone, inputs={"base": trained.base}, params={"alone": 1}, facts={"steps": 9, "kept": []}
    )
    report, evidence = trained.report(limit=8)
    assert evidence.chosen is not None
    assert evidence.chosen.by is not None
    assert [(each.step, each.validation_loss) for each in evidence.chosen.by.weights] == [(9, None)]
    assert evidence.chosen.by.n == 8, "only so many items as the recipe says"
    assert measured_weights(trained.checkpoint, report, evidence).prefix == "final/"
