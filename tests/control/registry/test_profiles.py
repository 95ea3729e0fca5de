"""A profile is a name for gates: what is registered are the gates."""

from typing import Any

import pytest

from ft_assets.control.auto.combinations import require_possible
from ft_assets.control.recipes.stored import next_version
from ft_assets.settings.catalogue.gates import profiles
from ft_assets.settings.catalogue.gates.profiles import PROFILES
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.ungated import NO_GATES
from ft_resources.errors import BadRecipe
from ft_resources.strict import parse_strict, parse_yaml


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


def test_a_field_beside_a_profile_wins_and_the_rest_of_its_section_stays() -> None:
    gates = recipe({"profile": "chat", "task_gain": {"min_relative": 0.3}, "safety": None}).gates
    assert gates != NO_GATES
    assert (gates.task_gain.metric, gates.task_gain.min_relative) == ("perplexity", 0.3)
    assert "safety" in gates.model_fields_set


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


def test_the_profile_none_is_no_gates_and_stands_alone() -> None:
    assert recipe({"profile": "none"}) == recipe("none")
    with pytest.raises(BadRecipe, match="none judges nothing"):
        recipe({"profile": "none", "safety": {}})


@pytest.mark.parametrize("name", ["talk", ["chat"], {"chat": 1}, 3])
def test_another_profile_is_refused_with_those_that_there_are(name: Any) -> None:
    with pytest.raises(BadRecipe, match=r"gates\.profile: should be .*'classification'"):
        recipe({"profile": name})
