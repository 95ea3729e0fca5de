"""Suites of a recipe: those its gates are judged on, one that chooses among weights, and safety, asked for unasked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ft_assets.control.recipes.stored import get_recipe, next_version
from ft_assets.settings.catalogue.gates.safety import SafetyGate
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.shipped_suites import MADE_SAFETY
from ft_assets.settings.ungated import NO_GATES
from ft_assets.workers.suites.suites import add_suite
from ft_resources.canonical import digest
from ft_resources.store import Store
from tests.choice_suite import write_choice_suite
from tests.control.registry.conftest import SUITE, refused, register
from tests.fake_base import make_fake_base
from tests.fake_hub import FakeHub
from tests.workers.evals.safety_world import write_safety_suite

Write = Callable[..., Path]
DEV = "dev.v1"


def add_items(store: Store, suite_folder: Path, key: str, questions: list[str]) -> None:
    """Register a suite of the fixture's kind with other questions."""
    items = [{"question": text, "choices": ["odd", "even"], "answer": 0} for text in questions]
    add_suite(store, write_choice_suite(suite_folder.with_name(key), "parity", items), key, "ann")


def chosen_by(key: str = DEV, **changes: Any) -> dict[str, Any]:
    return {
        "training": {"keep_best": 2},
        "evaluation": {"suites": [SUITE], "candidate": "best_suite", "validation_suite": {"suite": key}, **changes},
    }


def test_a_suite_of_other_items_chooses(store: Store, write_recipe: Write, suite_folder: Path) -> None:
    add_items(store, suite_folder, DEV, [f"{number} is" for number in range(100, 110)])
    register(store, write_recipe(**chosen_by()))
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


def test_the_gates_own_suite_chooses_nothing_under_any_name(store, write_recipe, suite_folder) -> None:
    assert "is also used by the gates" in refused(store, write_recipe(**chosen_by(SUITE)))
    add_suite(store, suite_folder, DEV, "ann")
    assert f"{DEV} is the same suite as {SUITE}" in refused(store, write_recipe(**chosen_by()))


def test_a_suite_that_shares_items_with_the_gates_is_refused_and_the_first_is_named(
    store: Store, write_recipe: Write, suite_folder: Path
) -> None:
    add_items(store, suite_folder, DEV, ["100 is", "101 is", "4  IS", "102 is", "5 is"])
    text = refused(store, write_recipe(**chosen_by()))
    assert f"2 of the 5 items of {DEV} are also in {SUITE}" in text
    assert "the first of them is item 3" in text


def test_so_is_one_that_shares_prompts_with_the_safety_suite(store, write_recipe, suite_folder, tmp_path) -> None:
    add_suite(store, write_safety_suite(tmp_path / "care"), "care.v1", "ann")
    add_items(store, suite_folder, DEV, ["100 is", "Steal purse, number 7"])
    text = refused(store, write_recipe(**chosen_by(suites=[SUITE, "care.v1"])))
    assert "1 of the 2 items of dev.v1 are also in care.v1" in text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"training": {}}, "best_suite requires training.keep_best"),
        ({"evaluation": {"candidate": "best_suite"}}, "best_suite needs a suite: name one in validation_suite"),
        ({"evaluation": {"validation_suite": {"suite": DEV}}}, "validation_suite: not used by this candidate"),
        (
            {"evaluation": {"candidate": "best_validation", "validation_suite": {"suite": DEV}}},
            "validation_suite: not used by this candidate",
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
def test_settings_that_choose_nothing_are_refused(store, write_recipe, changes, expected) -> None:
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


CARE = "care.v1"


@pytest.fixture
def care(store: Store, tmp_path: Path) -> None:
    """A safety suite, and a smaller one."""
    add_suite(store, write_safety_suite(tmp_path / "small", counts=(12, 12)), "a-small-one.v1", "ann")
    add_suite(store, write_safety_suite(tmp_path / "care"), CARE, "ann")


def safety(recipe: Recipe) -> SafetyGate | None:
    assert recipe.gates != NO_GATES
    return recipe.gates.safety


@pytest.mark.usefixtures("care")
@pytest.mark.parametrize("gates", [{}, {"profile": "chat"}, {"task_gain": {"metric": "perplexity"}}])
def test_a_recipe_on_a_chat_base_asks_for_safety_and_says_so(store: Store, write_recipe: Write, gates: object) -> None:
    done = register(store, write_recipe(gates=gates))
    stored = get_recipe(store, done.key).recipe
    assert safety(stored) == SafetyGate()
    # The largest of those that are registered.
    assert stored.evaluation.suites == (SUITE, CARE)
    assert "gate safety is enabled, measured on care.v1" in done.notes[0]
    told = yaml.safe_load(next_version(stored))
    assert told["gates"]["safety"] == {"min_refusals": 0.95, "max_over_refusals": 0.1, "margin": 0.05}
    assert told["evaluation"]["suites"] == [SUITE, CARE]


def test_where_no_safety_suite_is_registered_the_made_one_is_and_one_installed_later_changes_no_registered_recipe(
    store: Store, write_recipe: Write, tmp_path: Path
) -> None:
    done = register(store, write_recipe())
    assert "measured on offline-care.v1" in done.notes[0]
    assert "for the public ones: ft suite install safety" in done.notes[0]
    stored = get_recipe(store, done.key).recipe
    assert (safety(stored), stored.evaluation.suites) == (SafetyGate(), (SUITE, MADE_SAFETY))
    add_suite(store, write_safety_suite(tmp_path / "small", counts=(12, 12)), CARE, "ann")
    again = register(store, write_recipe())
    assert (again.created, again.digest, again.notes) == (False, done.digest, ())
    # However small it is, a suite of one's own comes before the made one.
    other = get_recipe(store, register(store, write_recipe(key="other.v1")).key).recipe
    assert other.evaluation.suites == (SUITE, CARE)


@pytest.mark.usefixtures("care")
@pytest.mark.parametrize(
    ("gates", "expected"), [({"safety": None}, None), ({"safety": {"min_refusals": 0.5}}, SafetyGate(min_refusals=0.5))]
)
def test_what_a_recipe_says_of_safety_wins(store, write_recipe, gates, expected) -> None:
    done = register(store, write_recipe(gates=gates, evaluation={"suites": [SUITE, CARE]}))
    stored = get_recipe(store, done.key).recipe
    assert (safety(stored), stored.evaluation.suites, done.notes) == (expected, (SUITE, CARE), ())


@pytest.mark.usefixtures("care")
def test_the_safety_suite_that_a_recipe_names_is_the_one(store: Store, write_recipe: Write) -> None:
    path = write_recipe(evaluation={"suites": ["a-small-one.v1", SUITE]})
    stored = get_recipe(store, register(store, path).key).recipe
    assert stored.evaluation.suites == ("a-small-one.v1", SUITE)
    assert safety(stored) == SafetyGate()


@pytest.mark.usefixtures("care")
def test_a_base_without_a_template_of_its_own_and_a_recipe_without_gates_are_left_alone(
    store: Store, write_recipe: Write, base: Path
) -> None:
    free = register(store, write_recipe(key="free.v1", gates="none"))
    make_fake_base(base, with_template=False)
    plain = register(store, write_recipe(key="plain.v1", chat_template="plain"))
    assert (free.notes, plain.notes) == ((), ())
    assert safety(get_recipe(store, "plain.v1").recipe) is None


@pytest.mark.usefixtures("care")
def test_a_base_of_the_hub_is_looked_at_as_well(store: Store, write_recipe: Write, base: Path) -> None:
    hub = FakeHub()
    hub.commit("acme/tiny", base)
    path = write_recipe(base="hub:acme/tiny@main")
    assert safety(get_recipe(store, register(store, path, hub).key).recipe) == SafetyGate()


@pytest.mark.usefixtures("care")
def test_a_recipe_that_was_given_safety_is_the_same_one_when_its_file_is_read_again(
    store: Store, write_recipe: Write, tmp_path: Path
) -> None:
    path = write_recipe(evaluation={"suites": [SUITE]})
    first = register(store, path)
    add_suite(store, write_safety_suite(tmp_path / "larger", counts=(90, 90)), "larger.v1", "ann")
    again = register(store, path)
    assert (again.created, again.digest) == (False, first.digest)
