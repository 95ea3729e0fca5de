"""Gates of a recipe: profiles are names for them, and a submission's are stricter or refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.auto.combinations import require_possible
from ft_assets.control.recipes.stored import next_version
from ft_assets.settings.catalogue.gates import profiles
from ft_assets.settings.catalogue.gates.profiles import PROFILES
from ft_assets.settings.catalogue.gates.regression import BenchmarkRegressionGate
from ft_assets.settings.catalogue.gates.scores import Score
from ft_assets.settings.catalogue.gates.task_gain import TaskGainGate
from ft_assets.settings.recipe.acceptance import GateSettings
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.recipe.tightening import THRESHOLDS, tighten
from ft_assets.settings.ungated import NO_GATES
from ft_resources.errors import BadRecipe, UserError
from ft_resources.strict import parse_strict, parse_yaml

MEASURED = ["perplexity", "exact_match", "book-cloze.v1"]


def test_a_metric_a_threshold_and_a_gate_that_the_recipe_does_not_ask_for_are_added() -> None:
    tightened = tighten(
        GateSettings(),
        ["exact_match > 0.6", "perplexity<12", "task_gain.min_relative > 0.1", "safety.min_refusals > 0.99"],
        MEASURED,
    )
    assert tightened.scores == (
        Score(metric="exact_match", better_than=0.6),
        Score(metric="perplexity", better_than=12.0),
    )
    assert tightened.task_gain.min_relative == 0.1
    assert tightened.safety is not None
    assert (tightened.safety.min_refusals, tightened.safety.max_over_refusals) == (0.99, 0.1)
    assert tightened.judge is None
    assert tighten(GateSettings(), []) == GateSettings()


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ("task_gain.min_relative > 0.01", "would loosen the recipe's gates (task_gain.min_relative > 0.05)"),
        ("benchmark_regression.max_drop_points < 5", "recipe's gates (benchmark_regression.max_drop_points < 2)"),
        ("benchmark_regression.max_drop_points > 1", "a submission may only tighten them"),
        ("safety.min_refusals > 0.5", "recipe's gates (safety.min_refusals > 0.95)"),
        ("exact_match < 0.6", "may only tighten"),
        ("perplexity > 12", "may only tighten"),
        ("exact_match > 0.3", "recipe's gates (exact_match > 0.4)"),
        ("exakt_match > 0.6", "did you mean 'exact_match'?"),
        ("exact_match >= 0.6", "is not a gate"),
        ("exact_match > nan", "is not a gate"),
        ("exact_match > 1e999", "is not a gate"),
        ("exact_match", "is not a gate"),
        ("safety.min_refusals > 1.5", "min_refusals must be at most 1"),
        ("task_gain > 0.1", "neither measured"),
    ],
)
def test_what_would_loosen_the_recipe_or_cannot_be_read_is_refused_with_a_sentence(wish: str, words: str) -> None:
    gates = GateSettings(scores=(Score(metric="exact_match", better_than=0.4),))
    with pytest.raises(UserError) as caught:
        tighten(gates, [wish], MEASURED)
    assert words in caught.value.what
    assert caught.value.remedy


def test_every_threshold_of_every_gate_can_be_tightened() -> None:
    fields = {
        f"{section}.{name}"
        for section, info in GateSettings.model_fields.items()
        if section not in ("profile", "scores")
        for name, field in getattr(GateSettings(safety={}, judge={}), section).__class__.model_fields.items()  # type: ignore[arg-type]
        if field.annotation is float
    }
    assert fields == set(THRESHOLDS)


wishes = st.builds(
    lambda name, value: f"{name} {THRESHOLDS.get(name, '>')} {value:.4f}",
    st.sampled_from([*sorted(THRESHOLDS), "exact_match"]),
    st.floats(0, 1),
)
recipes = st.builds(
    GateSettings,
    benchmark_regression=st.builds(
        BenchmarkRegressionGate, max_drop_points=st.floats(0, 3), margin_points=st.floats(0, 3)
    ),
    task_gain=st.builds(TaskGainGate, min_relative=st.floats(0, 1)),
)


@given(recipes, st.lists(wishes, max_size=4))
def test_whatever_is_accepted_is_nowhere_looser(gates: GateSettings, asked: list[str]) -> None:
    try:
        tightened = tighten(gates, asked, MEASURED)
    except UserError:
        return
    assert tightened == tighten(gates, list(reversed(asked)), MEASURED)
    for path, strict in THRESHOLDS.items():
        section, field = path.split(".")
        before, after = getattr(gates, section), getattr(tightened, section)
        if before is not None:
            was, now = getattr(before, field), getattr(after, field)
            assert now >= was if strict == ">" else now <= was
    assert {score.metric for score in gates.scores} <= {score.metric for score in tightened.scores}


def recipe(gates: Any, **changes: Any) -> Recipe:
    return parse_strict(Recipe, {"key": "some.v1", "base": "folder:./base", "gates": gates, **changes}, "recipe.yaml")


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_stated_in_full_by_the_next_versions_yaml_and_by_the_stored_recipe(name: str) -> None:
    found = recipe({"profile": name})
    told = parse_yaml(next_version(found), "next")
    assert told["gates"] == PROFILES[name]
    stored = found.model_dump(mode="json")["gates"]
    assert "profile" not in stored
    assert stored["task_gain"] == PROFILES[name]["task_gain"]
    # The same thresholds written by hand are the same recipe.
    assert recipe(told["gates"], evaluation=told.get("evaluation", {})) == found


def test_a_field_beside_a_profile_wins_and_none_is_no_gates_and_stands_alone() -> None:
    gates = recipe({"profile": "chat", "task_gain": {"min_relative": 0.3}, "safety": None}).gates
    assert gates != NO_GATES
    assert (gates.task_gain.metric, gates.task_gain.min_relative) == ("perplexity", 0.3)
    assert "safety" in gates.model_fields_set
    assert recipe({"profile": "none"}) == recipe("none")
    with pytest.raises(BadRecipe, match="none disables all gates"):
        recipe({"profile": "none", "safety": {}})


def test_what_a_profile_judges_is_measured_unless_the_recipe_says_what_is() -> None:
    assert recipe({"profile": "classification"}).evaluation.holdout.metrics == ("macro_f1",)
    assert recipe({"profile": "chat"}).evaluation.holdout.metrics == ("exact_match",)
    asked = {"profile": "extraction", "task_gain": {"metric": "rougeL"}}
    assert recipe(asked).evaluation.holdout.metrics == ("rougeL",)
    with pytest.raises(BadRecipe, match="'macro_f1' is not measured"):
        recipe({"profile": "classification"}, evaluation={"holdout": {"metrics": ["accuracy"]}})


def test_texts_are_judged_by_perplexity_unless_the_recipe_says_by_what() -> None:
    def judged(gates: Any) -> tuple[str, float]:
        found = recipe(gates, method="cpt").gates
        assert found != NO_GATES
        return found.task_gain.metric, found.task_gain.min_relative

    usual = PROFILES["chat"]["task_gain"]
    assert judged({}) == (usual["metric"], usual["min_relative"])
    assert judged({"task_gain": {"min_relative": 0.1}}) == ("perplexity", 0.1)
    assert judged({"task_gain": {"metric": "perplexity"}}) == ("perplexity", 0.05), "as recipes from before say it"
    assert judged({"profile": "extraction"}) == ("exact_match", 0.05), "which registration refuses"
    assert recipe("none", method="cpt").gates == NO_GATES
    bare = parse_strict(Recipe, {"key": "some.v1", "base": "folder:./base", "method": "cpt"}, "recipe.yaml")
    require_possible(bare, None)


def test_a_later_change_of_a_profile_changes_no_recipe_that_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = recipe({"profile": "code"}).model_dump(mode="json")
    later = {"code": {"task_gain": {"metric": "exact_match", "min_relative": 0.9}}}
    monkeypatch.setattr(profiles, "PROFILES", later)
    assert parse_strict(Recipe, stored, "stored").model_dump(mode="json") == stored
    gates = recipe({"profile": "code"}).gates
    assert gates != NO_GATES
    assert gates.task_gain.min_relative == 0.9


@pytest.mark.parametrize("name", ["talk", ["chat"], {"chat": 1}, 3])
def test_another_profile_is_refused_with_those_that_there_are(name: Any) -> None:
    with pytest.raises(BadRecipe, match=r"gates\.profile: should be .*'classification'"):
        recipe({"profile": name})
