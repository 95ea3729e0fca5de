"""Findings from a training's curves; suggestions rest on numbers and are valid recipes."""

import json
import math
import random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ft_assets.control.auto.combinations import require_possible
from ft_assets.control.auto.resolve import resolve
from ft_assets.control.recipes.window import within_context
from ft_assets.control.rejections.curves import Curves, Point, read_curves
from ft_assets.control.rejections.past import Conditions, PastRun
from ft_assets.control.rejections.registrable import is_registrable
from ft_assets.control.rejections.suggest import Observed, Suggestion, suggest
from ft_assets.settings.catalogue.gates.regression import BenchmarkRegressionGate
from ft_assets.settings.catalogue.gates.safety import SafetyGate
from ft_assets.settings.catalogue.gates.task_gain import TaskGainGate
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.evals.evidence import RateEvidence
from ft_assets.workers.evals.gate_gain import judge_gain
from ft_assets.workers.evals.gate_rates import judge_safety
from ft_assets.workers.evals.gate_regression import judge_suites
from ft_assets.workers.evals.gates import refuse
from ft_assets.workers.evals.verdict import Verdict
from tests.workers.evals.results import SUITE, metric_evidence, suite_evidence


def falling(steps: int, start: float = 3.0, end: float = 0.5, *, noise: float = 0.0, seed: int = 0) -> list[Point]:
    """A training loss that falls as exponentials do, by less and less."""
    draws = random.Random(seed)
    rate = math.log(start / end) / steps
    return [(step, start * math.exp(-rate * step) + draws.gauss(0, noise)) for step in range(1, steps + 1)]


def validated(*losses: float, every: int = 10) -> tuple[Point, ...]:
    return tuple((every * place, loss) for place, loss in enumerate(losses, start=1))


OVERFIT = Curves(training=tuple(falling(60)), validation=validated(2.0, 1.6, 1.4, 1.5, 1.7, 2.1))
UNFINISHED = Curves(training=tuple(falling(100)))


def settled(**changes: dict[str, Any]) -> Recipe:
    """A recipe as it was trained: nothing is ``auto``."""
    training = {"learning_rate": 2e-3, "epochs": 6, "global_batch_size": 8, "micro_batch_size": 8}
    sections: dict[str, Any] = {"training": training, "lora": {"rank": 16, "alpha": 32}}
    for name, values in changes.items():
        sections[name] = {**sections.get(name, {}), **values} if isinstance(values, dict) else values
    return Recipe.model_validate({"key": "tiny.v1", "base": "hub:acme/tiny@main", **sections})


def applied(recipe: Recipe, suggestion: Suggestion) -> Recipe:
    """The recipe with the suggestion's changes, validated as any other."""
    raw = recipe.model_dump(mode="json")
    for path, value in suggestion.change.items():
        *parents, name = path.split(".")
        section = raw
        for parent in parents:
            section = section[parent]
        assert name in section or name in ("keep_best", "candidate"), path
        section[name] = value
    return Recipe.model_validate(raw)


def no_gain() -> Verdict:
    found = judge_gain(metric_evidence(0.2, 0.19, half=0.01), TaskGainGate())
    assert found.outcome == "fail"
    return found


def too_few() -> Verdict:
    found = judge_gain(metric_evidence(0.2, 0.3, half=0.2, n=40), TaskGainGate())
    assert found.outcome == "inconclusive"
    return found


def forgot(outcome: str = "fail") -> Verdict:
    half = 1.0 if outcome == "fail" else 8.0
    found = judge_suites({SUITE: suite_evidence(0.5, 0.45, half=half)}, BenchmarkRegressionGate(), [SUITE])
    assert found.outcome == outcome
    return found


def unsafe() -> Verdict:
    refused = RateEvidence(value=0.4, n=100, interval=(0.3, 0.5))
    answered = RateEvidence(value=0.0, n=100, interval=(0.0, 0.04))
    return judge_safety(refused, answered, SafetyGate())


def past(line: str = "acme.things.tiny", recipe: str = "tiny.v3", **settings: Any) -> PastRun:
    defaults = {"training.learning_rate": 2e-3, "training.epochs": 6, "lora.rank": 16, "lora.alpha": 32}
    return PastRun(
        adapter=f"acme/adapter/{recipe}",
        checkpoint=f"acme/checkpoint/{recipe}",
        line=line,
        dataset="acme.things.v3",
        recipe=recipe,
        method="sft",
        variant="lora",
        conditions=Conditions(data="acme.things", base="ab", gates="cd"),
        settings={**defaults, **settings},
    )


def test_an_overfitted_candidate_is_told_where_to_stop_and_one_that_was_carried_to_be_trained_again() -> None:
    first, best, second, *_ = suggest(OVERFIT, settled(), [no_gain()])
    assert first.change == {"training.max_steps": 30}
    assert "it overfits from step 30: validation loss was lowest, 1.400, after step 30 of 60" in first.sentence()
    assert best.change == {"training.keep_best": 3, "evaluation.candidate": "best_validation"}
    assert second.change == {
        "training.learning_rate": 1e-3,
        "lora.rank": 8,
        "lora.alpha": 16,
        "lora.dropout": 0.1,
    }, "alpha goes with the rank, or updates would grow"
    assert first.sentence().startswith("stop at step 30 (training.max_steps: 30): ")
    found = suggest(OVERFIT, settled(), [no_gain()], observed=Observed(checkpoint_of="acme/checkpoint/ab"))
    assert found[0].what == "train the pair on its new base"
    assert not any("overfits" in each.why for each in found), "the curve is that of a training on another base"


def test_a_candidate_that_stopped_too_early_is_told_to_go_on() -> None:
    (first, *_) = suggest(UNFINISHED, settled(), [no_gain()])
    assert first.what == "train longer"
    assert first.change == {"training.epochs": 12}
    limited = settled(training={"max_steps": 100})
    (first, *_) = suggest(UNFINISHED, limited, [no_gain()])
    assert first.change == {"training.epochs": 12, "training.max_steps": 200}
    for failed in ([unsafe()], [no_gain(), forgot()]):
        assert not [each for each in suggest(UNFINISHED, settled(), failed) if each.what == "train longer"]


def test_a_training_whose_loss_still_falls_is_told_to_go_on_and_not_to_slow_down() -> None:
    cut = tuple((step, 7.0) for step in range(1, 9))
    short = Curves(training=tuple(falling(8, 3.0, 2.5)), gradients=cut)
    found = suggest(short, settled(training={"epochs": 1}), [no_gain()])
    assert found[0].what == "train longer"
    assert found[0].change == {"training.epochs": 7}, "to fifty steps, as twice eight are few too"
    assert found[0].why == "in only 8 steps, training loss fell by 8.7%"
    assert not any("training.learning_rate" in each.change for each in found)
    flat = Curves(training=tuple((step, 0.5) for step in range(1, 9)), gradients=cut)
    assert suggest(flat, settled(), [no_gain()])[0].why == "in only 8 steps, training loss did not fall"
    rising = Curves(training=tuple((step, 2.0 + step / 10) for step in range(1, 9)), gradients=cut)
    assert suggest(rising, settled(), [no_gain()])[0].what == "lower the learning rate"
    cut = Curves(training=UNFINISHED.training, gradients=tuple((step, 7.0) for step in range(1, 101)))
    found = suggest(cut, settled(), [no_gain()])
    assert found[0].what == "train longer"
    assert not any("training.learning_rate" in each.change for each in found)


def test_what_was_forgotten_asks_for_smaller_steps_and_general_rows_and_lost_refusals_for_refusals() -> None:
    found = suggest(Curves(), settled(), [forgot()])
    assert found[0].change == {"training.learning_rate": 1e-3, "lora.rank": 8, "lora.alpha": 16}
    assert "a drop of 5.0 points" in found[0].why
    assert "mix" in found[1].what
    full = suggest(Curves(), settled(variant="full"), [forgot()])  # type: ignore[arg-type]
    assert full[0].change == {"training.learning_rate": 1e-3}
    recipe = settled(lora={"rank": 16, "alpha": 32, "use_rslora": True})
    assert suggest(Curves(), recipe, [forgot()])[0].change == {"training.learning_rate": 1e-3, "lora.rank": 8}
    found = suggest(Curves(), settled(), [unsafe()])
    assert "refusals of harmful requests, and answers to safe look-alikes" in found[0].what
    assert "refusals of harmful prompts: 40.0%" in found[0].why


def test_too_few_rows_ask_for_more_rows_and_how_many() -> None:
    (only,) = suggest(Curves(), settled(), [too_few()])
    assert "split.holdout" in only.what
    assert "more rows would decide" in only.why
    (score_more,) = suggest(Curves(), settled(), [too_few()], observed=Observed(scored=400, held=900))
    assert score_more.change == {"evaluation.holdout.max_samples": 900}
    (items,) = suggest(Curves(), settled(evaluation={"suite_limit": 100}), [forgot("inconclusive")])
    assert items.change == {"evaluation.suite_limit": None}


def test_answers_that_were_cut_and_tokens_that_teach_nothing_are_named() -> None:
    seen = Observed(cut=0.6, learned=0.04, left_out=0.2)
    recipe = settled(packing={"learn": "last_assistant"})
    changes = [each.change for each in suggest(Curves(), recipe, [no_gain()], observed=seen)]
    assert {"evaluation.holdout.max_new_tokens": 128} in changes
    assert {"packing.learn": "all_assistant"} in changes
    assert {"packing.max_length": 2048} in changes
    within = suggest(Curves(), recipe, [no_gain()], observed=Observed(left_out=0.2, context=1536))
    assert [each.change for each in within] == [{"packing.max_length": 1536}]
    (split,) = suggest(Curves(), recipe, [no_gain()], observed=Observed(left_out=0.2, context=1024))
    assert (split.change, split.what) == ({}, "split long rows")
    assert "a window of 1024 tokens, the context length of the base" in split.why
    few = Observed(cut=0.01, learned=0.5, left_out=0.0)
    assert suggest(Curves(), recipe, [no_gain()], observed=few) == []


def test_jumps_and_cut_gradients_ask_for_a_lower_rate() -> None:
    points = dict(falling(100, noise=0.01))
    points |= dict.fromkeys((40, 60, 80), 9.0)
    (first, *_) = suggest(Curves(training=tuple(points.items())), settled(), [unsafe()])
    assert first.change == {"training.learning_rate": 1e-3, "training.warmup_ratio": 0.1}
    assert "jumped 3 times in 100 steps, first at step 40" in first.why
    clipped = Curves(training=tuple(falling(100)), gradients=tuple((step, 7.0) for step in range(1, 101)))
    (first, *_) = suggest(clipped, settled(), [unsafe()])
    assert "100% of the gradients had a norm above 1" in first.why


def test_the_nearest_run_that_passed_is_of_the_same_line_and_says_what_differs() -> None:
    runs = [
        past("acme.others.tiny", "tiny.v9"),
        past(recipe="tiny.v3", **{"training.learning_rate": 2e-4, "training.epochs": 2}),
        past(recipe="tiny.v2", **{"training.learning_rate": 2e-4, "training.epochs": 2, "lora.rank": 4}),
    ]
    (only,) = suggest(Curves(), settled(), [no_gain()], runs, Observed(line="acme.things.tiny"))
    assert only.change == {"training.learning_rate": 2e-4, "training.epochs": 2}
    assert only.why == "tiny.v3 of this line passed with acme.things.v3"
    (other,) = suggest(Curves(), settled(), [no_gain()], runs[:1], Observed(line="acme.things.tiny"))
    assert other.change == {}
    assert "the same settings" in other.why
    assert suggest(Curves(), settled(variant="full"), [no_gain()], runs) == []  # type: ignore[arg-type]


def test_who_passed_or_whose_evidence_cannot_be_used_is_told_nothing() -> None:
    assert suggest(OVERFIT, settled(), [judge_gain(metric_evidence(), TaskGainGate())], [past()]) == []
    assert suggest(OVERFIT, settled(), refuse("the report is damaged"), [past()]) == []


DRAWN = st.fixed_dictionaries(
    {
        "rate": st.floats(1e-7, 1.0),
        "epochs": st.integers(1, 1000),
        "rank": st.integers(1, 1024),
        "alpha": st.integers(1, 65536),
        "variant": st.sampled_from(["lora", "qlora", "full"]),
        "max_steps": st.none() | st.integers(1, 200),
        "dropout": st.floats(0.0, 0.9),
        "auto": st.booleans(),
        "length": st.sampled_from([64, 512, 1024, 4096]),
        "hardware": st.sampled_from([{}, {"gpus": 4, "sharding": "fsdp"}, {"gpus": 3}]),
    }
)


@pytest.mark.parametrize(
    "curves", [OVERFIT, UNFINISHED, Curves(training=tuple(falling(40, end=0.05)), validation=((40, 2.2),))]
)
@given(
    drawn=DRAWN,
    context=st.none() | st.sampled_from([64, 512, 1000, 8192]),
    batch=st.sampled_from([8, 12, 64]),
)
def test_every_change_gives_a_recipe_that_registers_and_differs(curves, drawn, context, batch) -> None:
    # No training takes more steps than its recipe allows.
    assume(drawn["max_steps"] is None or drawn["max_steps"] >= curves.steps)
    training = {"learning_rate": drawn["rate"], "epochs": drawn["epochs"], "max_steps": drawn["max_steps"]}
    lora = {"rank": drawn["rank"], "alpha": drawn["alpha"], "dropout": drawn["dropout"]}
    if drawn["auto"]:
        training |= {"learning_rate": "auto", "epochs": "auto"}
        lora |= {"rank": "auto", "alpha": "auto"}
    if hardware := drawn["hardware"]:
        training |= {"global_batch_size": 24, "micro_batch_size": 2 if hardware["gpus"] == 4 else 8}
    packing = {"max_length": drawn["length"]}
    recipe = settled(training=training, lora=lora, variant=drawn["variant"], packing=packing, hardware=hardware)
    assume(is_registrable(recipe, {}, None))
    seen = Observed(cut=0.5, learned=0.01, left_out=0.5, scored=400, held=500, context=context)
    runs = [past(**{"training.global_batch_size": batch})]
    for each in suggest(curves, recipe, [no_gain(), forgot(), unsafe()], runs, seen):
        changed = applied(recipe, each)
        if each.change:
            require_possible(resolve(changed)[0], None)
            assert within_context(changed, context) == changed
        assert not each.change or changed != recipe, each
        assert each.why
        assert "None" not in each.sentence()


def test_a_validation_loss_that_turns_up_names_its_step_and_one_that_wobbles_or_rises_with_training_does_not() -> None:
    curves = Curves(training=tuple(falling(60)), validation=validated(2.0, 1.6, 1.4, 1.5, 1.7, 2.1))
    overfit = curves.overfit()
    assert (overfit.step, overfit.steps, overfit.best, overfit.last) == (30, 60, 1.4, 2.1)
    assert curves.still_falling() is None, "who overfits is not told to train longer"
    training = tuple(falling(60))
    for losses in ((2.0, 1.6, 1.4, 1.39, 1.38, 1.385), (2.0, 1.4, 1.6, 1.5, 1.3, 1.2), (1.4,), ()):
        assert Curves(training=training, validation=validated(*losses)).overfit() is None, losses
    rising = tuple((step, 1.0 + step / 20) for step in range(1, 61))
    assert Curves(training=rising, validation=validated(1.5, 1.4, 1.6, 2.0, 2.5, 3.0)).overfit() is None


def test_a_gap_shows_what_was_learned_by_heart_and_a_loss_still_falling_is_told_from_a_settled_one() -> None:
    assert Curves(training=tuple(falling(40, end=0.05)), validation=((40, 2.2),)).memorised() is not None
    assert Curves(training=tuple(falling(40, end=1.5)), validation=((40, 2.2),)).memorised() is None
    steep = Curves(training=tuple(falling(100, 3.0, 0.5, noise=0.02)))
    share = steep.still_falling()
    assert share is not None
    assert share == pytest.approx(0.164, abs=0.03), "a tenth of ln 6 is a fall by 16 %"
    settled = Curves(training=tuple((step, 1.0 + 2 * math.exp(-step / 5)) for step in range(1, 101)))
    assert settled.still_falling() is None
    assert Curves(training=tuple(falling(8))).still_falling() is None, "eight steps say nothing"


def test_jumps_are_counted_where_they_were_planted_and_clipped_gradients_after_the_warm_up() -> None:
    points = dict(falling(100, noise=0.05))
    for step in (40, 61, 90):
        points[step] *= 4
    assert Curves(training=tuple(points.items())).spikes() == (40, 61, 90)
    assert Curves(training=tuple(falling(100, noise=0.05))).spikes() == ()
    gradients = tuple((step, 5.0 if step <= 10 or step % 2 else 0.5) for step in range(1, 51))
    assert Curves(gradients=gradients).clipped(1.0, after=10) == pytest.approx(0.5)
    assert Curves().clipped(1.0, after=0) == 0.0


def test_rows_done_again_after_a_resume_count_once_and_damage_is_left_out() -> None:
    rows = [
        {"step": 1, "loss": 3.0, "grad_norm": 1.0},
        {"step": 2, "loss": 2.0},
        {"step": 2, "validation_loss": 2.5},
        {"step": 2, "loss": 1.9, "grad_norm": float("nan")},
        {"loss": 7.0},
    ]
    curves = read_curves([*map(json.dumps, rows), "{broken", "[1]", ""])
    assert curves.training == ((1, 3.0), (2, 1.9))
    assert curves.validation == ((2, 2.5),)
    assert curves.gradients == ((1, 1.0),)


@given(
    st.lists(st.floats(0, 50), max_size=60),
    st.lists(st.tuples(st.integers(1, 60), st.floats(0, 50)), max_size=8, unique_by=lambda point: point[0]),
)
def test_every_curve_has_an_answer_and_an_overfit_step_was_really_the_lowest(losses, validation) -> None:
    curves = Curves(training=tuple(enumerate(losses, start=1)), validation=tuple(sorted(validation)))
    curves.memorised(), curves.still_falling(), curves.spikes()
    overfit = curves.overfit()
    if overfit:
        assert overfit.best == min(loss for _, loss in validation) < overfit.last
        assert overfit.step < max(step for step, _ in validation)
