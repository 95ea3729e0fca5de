"""A suite may choose among a training's weights only where it has no part in what the gates judge by."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.registry.register import register_recipe
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.suites.suites import add_suite
from ft_resources.canonical import digest
from ft_resources.errors import BadRecipe
from ft_resources.store import Store
from tests.control.registry.conftest import SUITE, contents
from tests.workers.evals.safety_world import write_safety_suite

Write = Callable[..., Path]
DEV = "dev.v1"


def add_items(store: Store, suite_folder: Path, key: str, questions: list[str]) -> None:
    """Register a suite of the fixture's kind with other questions."""
    folder = suite_folder.with_name(key)
    folder.mkdir()
    (folder / "parity.yaml").write_bytes((suite_folder / "parity.yaml").read_bytes())
    items = [{"question": text, "choices": ["odd", "even"], "answer": 0} for text in questions]
    (folder / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    add_suite(store, folder, key, "ann")


def chosen_by(key: str = DEV, **changes: Any) -> dict[str, Any]:
    return {
        "training": {"keep_best": 2},
        "evaluation": {"suites": [SUITE], "candidate": "best_suite", "validation_suite": {"suite": key}, **changes},
    }


def refused(store: Store, path: Path) -> str:
    before = contents(store)
    with pytest.raises(BadRecipe) as caught:
        register_recipe(store, path, actor="ann")
    assert contents(store) == before
    assert caught.value.where
    assert caught.value.remedy
    return str(caught.value)


def test_a_suite_of_other_items_chooses(store: Store, write_recipe: Write, suite_folder: Path) -> None:
    add_items(store, suite_folder, DEV, [f"{number} is" for number in range(100, 110)])
    register_recipe(store, write_recipe(**chosen_by()), actor="ann")
    evaluation = get_recipe(store, "tiny.v1").recipe.evaluation
    assert evaluation.validation_suite is not None
    assert (evaluation.candidate, evaluation.validation_suite.suite) == ("best_suite", DEV)


def test_a_suite_that_is_not_there_or_has_no_right_answers_chooses_nothing(
    store: Store, write_recipe: Write, suite_folder: Path, tmp_path: Path
) -> None:
    add_items(store, suite_folder, DEV, ["100 is"])
    assert "validation_suite: there is no suite 'dve.v1'" in refused(store, write_recipe(**chosen_by("dve.v1")))
    add_suite(store, write_safety_suite(tmp_path / "care"), "care.v1", "ann")
    assert "care.v1 is not a general suite" in refused(store, write_recipe(**chosen_by("care.v1")))
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "task.yaml").write_text("kind: golden\nfile: prompts.csv\n")
    (shown / "prompts.csv").write_text("prompt,expected\nwho are you?,\n")
    add_suite(store, shown, "shown.v1", "ann")
    assert "shown.v1 is not a general suite" in refused(store, write_recipe(**chosen_by("shown.v1")))


def test_the_gates_own_suite_chooses_nothing_under_any_name(
    store: Store, write_recipe: Write, suite_folder: Path
) -> None:
    assert "is also a suite of the gates" in refused(store, write_recipe(**chosen_by(SUITE)))
    add_suite(store, suite_folder, DEV, "ann")
    assert f"{DEV} is the same suite as {SUITE}" in refused(store, write_recipe(**chosen_by()))


def test_a_suite_that_shares_items_with_the_gates_is_refused_and_the_first_is_named(
    store: Store, write_recipe: Write, suite_folder: Path
) -> None:
    add_items(store, suite_folder, DEV, ["100 is", "101 is", "4  IS", "102 is", "5 is"])
    text = refused(store, write_recipe(**chosen_by()))
    assert f"2 of the 5 items of {DEV} are also in {SUITE}" in text
    assert "the first of them is item 3" in text


def test_so_is_one_that_shares_prompts_with_the_safety_suite(
    store: Store, write_recipe: Write, suite_folder: Path, tmp_path: Path
) -> None:
    add_suite(store, write_safety_suite(tmp_path / "care"), "care.v1", "ann")
    add_items(store, suite_folder, DEV, ["100 is", "Steal purse, number 7"])
    text = refused(store, write_recipe(**chosen_by(suites=[SUITE, "care.v1"])))
    assert "1 of the 2 items of dev.v1 are also in care.v1" in text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"training": {}}, "best_suite chooses among kept weights: set training.keep_best"),
        ({"evaluation": {"candidate": "best_suite"}}, "best_suite needs a suite: name one in validation_suite"),
        ({"evaluation": {"validation_suite": {"suite": DEV}}}, "validation_suite: it is not used"),
        (
            {"evaluation": {"candidate": "best_validation", "validation_suite": {"suite": DEV}}},
            "validation_suite: it is not used",
        ),
        (
            {"evaluation": {"candidate": "best_suite", "validation_suite": {"suite": "dev"}}},
            "evaluation.validation_suite.suite: a suite key has the form",
        ),
        (
            {"evaluation": {"candidate": "best_suite", "validation_suite": {"suite": DEV, "limit": 0}}},
            "evaluation.validation_suite.limit",
        ),
    ],
)
def test_settings_that_choose_nothing_are_refused(
    store: Store, write_recipe: Write, changes: dict[str, Any], expected: str
) -> None:
    assert expected in refused(store, write_recipe(**{**chosen_by(), **changes}))


def test_weights_in_shards_are_refused_as_for_any_choice(store: Store, write_recipe: Write, suite_folder: Path) -> None:
    add_items(store, suite_folder, DEV, ["100 is"])
    hardware = {"device": "cuda", "gpus": 2, "sharding": "fsdp"}
    assert "keep_best" in refused(store, write_recipe(**chosen_by(), hardware=hardware))


def test_a_recipe_that_chooses_by_no_suite_says_nothing_of_one() -> None:
    """Its digest, and those of its reports, are what they were before there was such a choice."""
    before = {
        "suites": ["book-cloze.v1"],
        "suite_limit": None,
        "holdout": {"metrics": ["exact_match"], "max_samples": 400, "max_new_tokens": 64},
        "seed": 17,
    }
    plain = Recipe(key="tiny.v1", base="hub:acme/tiny@main").evaluation.model_dump(mode="json")
    assert digest(plain) == digest(before)
    best = Recipe.model_validate(
        {
            "key": "tiny.v1",
            "base": "hub:acme/tiny@main",
            "training": {"keep_best": 1},
            "evaluation": {"candidate": "best_validation"},
        }
    )
    assert digest(best.evaluation.model_dump(mode="json")) == digest({**before, "candidate": "best_validation"})
