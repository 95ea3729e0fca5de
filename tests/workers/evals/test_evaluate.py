"""The whole work of eval_report on a tiny base: paired with the baseline, and the same bytes every time."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ft_assets.worker import drop_saves
from ft_assets.workers.adapters.export import measured_weights
from ft_assets.workers.evals.evaluate import evaluate
from ft_assets.workers.evals.evidence import BadEvidence, Chosen
from ft_assets.workers.evals.gates import passed
from ft_assets.workers.evals.remeasure import remeasure
from ft_assets.workers.evals.samples import read_suite_samples
from ft_assets.workers.evals.text_metrics import TEXT_METRICS
from ft_assets.workers.evals.verdicts import judge_candidate, load_evidence
from ft_resources.artifacts import EXPLAINING_FOLDERS, Artifact
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.work import WorkRequest
from tests.workers.evals.results import SUITE
from tests.workers.evals.world import World, evaluation, lora_files

pytestmark = pytest.mark.training
SUITE_INPUT = f"suite:{SUITE}"


def baseline(world: World, base: Artifact, suite: Artifact, **settings: object) -> Artifact:
    request = world.request(
        "baseline_report",
        tenant="shared",
        inputs={"base": base, SUITE_INPUT: suite},
        params={"settings": {"seed": 17, "limit": None, "chat_template": None, **settings}},
    )
    return world.baseline(request)


def eval_request(world: World, variant: str = "lora", **inputs: Artifact) -> WorkRequest:
    named = {"suite": SUITE_INPUT}
    return world.request(
        "eval_report",
        inputs={named.get(name, name): artifact for name, artifact in inputs.items()},
        params={"evaluation": evaluation(), "variant": variant, "chat_template": None},
    )


def content(folder: Path) -> dict[str, bytes]:
    """Names and bytes of the files that decide a content digest."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return {name: (folder / name).read_bytes() for name in names if not name.startswith(EXPLAINING_FOLDERS)}


def test_a_candidate_is_compared_with_its_base_item_by_item_and_twice_the_same(world: World) -> None:
    base, suite, dataset = world.base(), world.suite(), world.dataset()
    request = eval_request(
        world,
        checkpoint=world.checkpoint(base, strength=0.5),
        base=base,
        baseline=baseline(world, base, suite),
        dataset=dataset,
        suite=suite,
    )
    result = evaluate(world.context(request))
    drop_saves(world.store, request.address, [1])
    assert content(evaluate(world.context(request)).folder) == content(result.folder)
    report = world.publish_result(request, result)
    evidence = load_evidence(report)
    assert evidence.fingerprint == request.address.fingerprint
    assert evidence.rows == 12
    assert set(evidence.holdout) == {"perplexity", "exact_match", "f1"}
    assert evidence.holdout["perplexity"].candidate != evidence.holdout["perplexity"].base
    ids, columns = read_suite_samples(report.path(f"samples/{SUITE}.parquet", world.folder))
    assert len(ids) == evidence.suites[SUITE].n == 24
    assert sum(columns["base"]) / 24 == evidence.suites[SUITE].base
    assert sum(columns["candidate"]) / 24 == evidence.suites[SUITE].candidate
    rows, holdout = read_suite_samples(report.path("samples/holdout.parquet", world.folder))
    assert len(rows) == 12
    assert sum(holdout["candidate_correct"]) / 12 == evidence.holdout["exact_match"].candidate
    assert "report/report.html" in report.manifest.files
    assert report.facts["summary"]["perplexity"]["base"] == evidence.holdout["perplexity"].base
    # Row text stays in the samples and the page, which lie below the tenant's prefix; facts and evidence go further.
    assert b"what colour" not in report.read("report.json")
    assert "what colour" not in json.dumps(report.facts)


def test_every_metric_that_a_recipe_asks_for_is_measured_and_given_again_by_the_samples(world: World) -> None:
    base, suite = world.base(), world.suite()
    request = eval_request(
        world,
        checkpoint=world.checkpoint(base, strength=0.5),
        base=base,
        baseline=baseline(world, base, suite),
        dataset=world.dataset(),
        suite=suite,
    )
    holdout = {**evaluation()["holdout"], "metrics": ["exact_match", *TEXT_METRICS]}
    request.params["evaluation"] = evaluation(holdout=holdout)
    report = world.publish_result(request, evaluate(world.context(request)))
    evidence = load_evidence(report)
    assert set(evidence.holdout) == {"perplexity", "exact_match", "f1", *TEXT_METRICS}
    measured = remeasure(report, evidence)
    assert measured.holdout == evidence.holdout
    assert set(TEXT_METRICS) <= set(measured.scores)
    for metric in TEXT_METRICS:
        assert measured.scores[metric].value == pytest.approx(evidence.holdout[metric].candidate)
    _, columns = read_suite_samples(report.path("samples/holdout.parquet", world.folder))
    # A random model never says the end token in time.
    assert set(columns["candidate_cut"]) == {True}
    lied = evidence.holdout["bleu"].model_copy(update={"candidate": 0.9, "improvement": 0.9, "relative_gain": None})
    with pytest.raises(BadEvidence, match="for bleu, but its samples give"):
        remeasure(report, evidence.model_copy(update={"holdout": {**evidence.holdout, "bleu": lied}}))


def test_the_kept_weights_with_the_lowest_validation_loss_are_measured_and_exported_and_the_report_says_so(
    world: World,
) -> None:
    base, suite, dataset = world.base(), world.suite(), world.dataset()
    first, last = lora_files(0.5, seed=1), lora_files(0.5, seed=2)
    files = {f"kept/000005/{name}": data for name, data in first.items()}
    files |= {f"final/{name}": data for name, data in last.items()}
    facts = {"steps": 9, "validation_loss": [[5, 1.0], [9, 2.0]], "kept": [[5, 1.0]]}
    several = world.publish("checkpoint", files, inputs={"base": base}, params={"kept": 1}, facts=facts)
    alone = world.checkpoint(base, strength=0.5, seed=1)
    given = {"base": base, "baseline": baseline(world, base, suite), "dataset": dataset, "suite": suite}
    chosen = eval_request(world, checkpoint=several, **given)
    chosen.params["evaluation"] = evaluation(candidate="best_validation")
    report = world.publish_result(chosen, evaluate(world.context(chosen)))
    evidence = load_evidence(report)
    assert evidence.chosen is not None
    assert (evidence.chosen.step, evidence.chosen.steps) == (5, 9)
    plain = eval_request(world, checkpoint=alone, **given)
    expected = load_evidence(world.publish_result(plain, evaluate(world.context(plain))))
    assert expected.chosen is None
    assert evidence.holdout == expected.holdout, "those of the kept weights, not of the last"
    assert measured_weights(several, report, evidence).prefix == "kept/000005/"
    # By its step the same weights are asked for, without a rule.
    named = replace(chosen, params={**chosen.params, "evaluation": evaluation(candidate=5)})
    by_step = world.publish_result(named, evaluate(world.context(named)))
    said = load_evidence(by_step)
    assert (said.holdout, said.chosen) == (evidence.holdout, evidence.chosen)
    assert measured_weights(several, by_step, said).prefix == "kept/000005/"
    missing = replace(chosen, params={**chosen.params, "evaluation": evaluation(candidate=7)})
    with pytest.raises(UserError, match="after steps 5, 9, not after 7"):
        evaluate(world.context(missing))
    # A report that says other weights than the rule is about something else.
    lied = evidence.model_copy(update={"chosen": Chosen(step=9, steps=9)})
    with pytest.raises(CorruptArtifact, match="about the weights after step 9"):
        measured_weights(several, report, lied)


def test_a_candidate_that_is_its_base_gains_and_loses_nothing(world: World) -> None:
    base, suite = world.base(), world.suite()
    checkpoint = world.checkpoint(base, strength=0.0)
    request = eval_request(
        world,
        checkpoint=checkpoint,
        base=base,
        baseline=baseline(world, base, suite),
        dataset=world.dataset(),
        suite=suite,
    )
    report = world.publish_result(request, evaluate(world.context(request)))
    evidence = load_evidence(report)
    assert evidence.suites[SUITE].difference_points == 0
    assert all(metric.improvement == 0 for metric in evidence.holdout.values())
    adapter = world.adapter_request(base, checkpoint, report)
    assert not passed(judge_candidate(world.artifacts, adapter.inputs, adapter.params))


def test_a_full_model_is_scored_with_its_own_weights_and_the_bases_tokenizer(world: World) -> None:
    base, suite, other = world.base(), world.suite(), world.base(seed=5)
    files = {
        f"final/{name}": other.read(name) for name in ("config.json", "model.safetensors", "generation_config.json")
    }
    full = world.publish("checkpoint", files, inputs={"base": base}, params={"variant": "full"})
    request = eval_request(
        world,
        "full",
        checkpoint=full,
        base=base,
        baseline=baseline(world, base, suite),
        dataset=world.dataset(),
        suite=suite,
    )
    evidence = load_evidence(world.publish_result(request, evaluate(world.context(request))))
    theirs = baseline(world, other, suite).facts["scores"][SUITE]["value"]
    assert evidence.suites[SUITE].candidate == theirs
    assert evidence.holdout["perplexity"].candidate != evidence.holdout["perplexity"].base


def test_of_pairs_the_report_and_its_samples_say_how_often_the_chosen_answer_is_preferred(world: World) -> None:
    base, suite = world.base(), world.suite()
    checkpoint = world.checkpoint(base, strength=0.5)
    request = eval_request(
        world,
        checkpoint=checkpoint,
        base=base,
        baseline=baseline(world, base, suite),
        dataset=world.pairs(),
        suite=suite,
    )
    report = world.publish_result(request, evaluate(world.context(request)))
    accuracy = load_evidence(report).holdout["preference_accuracy"]
    assert accuracy.higher_is_better
    assert accuracy.n == 12
    _, columns = read_suite_samples(report.path("samples/holdout.parquet", world.folder))
    for name, share in (("base", accuracy.base), ("candidate", accuracy.candidate)):
        chosen, rejected = columns[f"{name}_nll"], columns[f"{name}_rejected_nll"]
        preferred = [one < other for one, other in zip(chosen, rejected, strict=True)]
        assert list(columns[f"{name}_prefers_chosen"]) == preferred
        assert share == sum(preferred) / 12
    assert report.facts["summary"]["preference_accuracy"] == {"base": accuracy.base, "candidate": accuracy.candidate}
    assert b"preference accuracy" in report.read("report/report.html")
    adapter = world.adapter_request(base, checkpoint, report, task_gain={"metric": "preference_accuracy"})
    verdicts = {each.gate: each for each in judge_candidate(world.artifacts, adapter.inputs, adapter.params)}
    assert "preference_accuracy" in verdicts["task_gain"].reason


@pytest.mark.parametrize("changed", ["suite", "base", "seed"])
def test_a_baseline_of_something_else_is_refused_before_any_work(world: World, changed: str) -> None:
    base, suite = world.base(), world.suite()
    theirs = world.suite(12) if changed == "suite" else suite
    other = world.base(seed=9) if changed == "base" else base
    report = world.publish(
        "baseline_report",
        {"report.json": b"{}"},
        tenant="shared",
        inputs={"base": other, SUITE_INPUT: theirs},
        params={"settings": {"seed": 4 if changed == "seed" else 17, "limit": None}},
    )
    request = eval_request(
        world,
        checkpoint=world.checkpoint(base),
        base=base,
        baseline=report,
        dataset=world.dataset(),
        suite=suite,
    )
    with pytest.raises(UserError, match=rf"measured with another .*{changed}"):
        evaluate(world.context(request))
