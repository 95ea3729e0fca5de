"""A likelihood that improves does not pass a candidate whose short answers clearly got worse."""

from ft_assets.settings.recipe.acceptance import GateSettings
from ft_assets.workers.evals.evidence import MetricEvidence
from ft_assets.workers.evals.gates import judge
from ft_assets.workers.evals.remeasure import remeasure
from ft_assets.workers.evals.verdict import Verdict
from tests.workers.evals.results import FINGERPRINT, SUITE, make_measured, make_results, metric_evidence
from tests.workers.evals.world import World

LIKELIER = metric_evidence(20.0, 10.0, half=1.0, higher=False)


def verdict(f1: MetricEvidence, *, metric: str = "perplexity", short: bool = True) -> Verdict:
    holdout = {"perplexity": LIKELIER, "exact_match": metric_evidence(), "f1": f1}
    gates = GateSettings.model_validate({"task_gain": {"metric": metric}})
    measured = make_measured(holdout=holdout, short_answers=short)
    found = judge(measured, gates, expected_fingerprint=FINGERPRINT, suites=[SUITE])
    return next(each for each in found if each.gate == "task_gain")


def test_a_clear_fall_of_f1_fails_where_perplexity_alone_would_pass() -> None:
    found = verdict(metric_evidence(0.6, 0.4, half=0.05))
    assert found.outcome == "fail"
    assert found.reason.startswith(
        "the answers got worse: f1 0.6 → 0.4, 95% confidence interval of the change -0.25 to -0.15; "
    )
    assert {"perplexity", "f1"} == found.numbers.keys()


def test_a_fall_that_is_small_or_may_be_chance_and_a_rise_change_nothing() -> None:
    for f1 in (metric_evidence(0.6, 0.56, half=0.01), metric_evidence(0.6, 0.5, half=0.12), metric_evidence(0.4, 0.6)):
        assert verdict(f1).outcome == "pass"


def test_long_answers_may_be_worded_otherwise() -> None:
    assert verdict(metric_evidence(0.6, 0.4, half=0.05), short=False).outcome == "pass"


def test_a_measure_of_answers_that_the_recipe_names_decides_alone() -> None:
    assert verdict(metric_evidence(0.6, 0.4, half=0.05), metric="exact_match").outcome == "pass"


def test_whether_answers_are_short_is_read_from_the_samples(world: World) -> None:
    base = world.publish("base_model", {"config.json": b"{}"}, tenant="shared")
    checkpoint = world.publish("checkpoint", {"recipe.json": b"{}"}, inputs={"base": base})

    for target, short in (("room B12", True), ("a long answer " * 10, False), ("", False)):
        results = make_results(target=target)
        assert remeasure(world.eval_report(base, checkpoint, results), results.evidence()).short_answers is short
