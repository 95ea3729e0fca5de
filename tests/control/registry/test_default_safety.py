"""A base that converses is asked for safety, unless its recipe says otherwise; what was decided is stated for good."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from ft_assets.control.recipes.stored import get_recipe, next_version
from ft_assets.control.registry.default_safety import NO_SUITE
from ft_assets.control.registry.register import register_recipe
from ft_assets.settings.catalogue.gates.safety import SafetyGate
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.ungated import NO_GATES
from ft_assets.workers.suites.suites import add_suite
from ft_resources.store import Store
from tests.control.registry.conftest import SUITE
from tests.fake_base import make_fake_base
from tests.fake_hub import FakeHub
from tests.workers.evals.safety_world import write_safety_suite

Write = Callable[..., Path]
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
    done = register_recipe(store, write_recipe(gates=gates), actor="ann")
    stored = get_recipe(store, done.key).recipe
    assert safety(stored) == SafetyGate()
    # The largest of those that are registered.
    assert stored.evaluation.suites == (SUITE, CARE)
    assert "gate safety is asked for, measured on care.v1" in done.notes[0]
    told = yaml.safe_load(next_version(stored))
    assert told["gates"]["safety"] == {"min_refusals": 0.95, "max_over_refusals": 0.1, "margin": 0.05}
    assert told["evaluation"]["suites"] == [SUITE, CARE]


def test_where_no_safety_suite_is_registered_it_says_so_plainly(store: Store, write_recipe: Write) -> None:
    done = register_recipe(store, write_recipe(), actor="ann")
    assert done.notes == (NO_SUITE,)
    assert safety(get_recipe(store, done.key).recipe) is None


@pytest.mark.usefixtures("care")
@pytest.mark.parametrize(
    ("gates", "expected"), [({"safety": None}, None), ({"safety": {"min_refusals": 0.5}}, SafetyGate(min_refusals=0.5))]
)
def test_what_a_recipe_says_of_safety_wins(
    store: Store, write_recipe: Write, gates: object, expected: SafetyGate | None
) -> None:
    done = register_recipe(store, write_recipe(gates=gates, evaluation={"suites": [SUITE, CARE]}), actor="ann")
    stored = get_recipe(store, done.key).recipe
    assert (safety(stored), stored.evaluation.suites, done.notes) == (expected, (SUITE, CARE), ())


@pytest.mark.usefixtures("care")
def test_the_safety_suite_that_a_recipe_names_is_the_one(store: Store, write_recipe: Write) -> None:
    path = write_recipe(evaluation={"suites": ["a-small-one.v1", SUITE]})
    stored = get_recipe(store, register_recipe(store, path, actor="ann").key).recipe
    assert stored.evaluation.suites == ("a-small-one.v1", SUITE)
    assert safety(stored) == SafetyGate()


@pytest.mark.usefixtures("care")
def test_a_base_without_a_template_of_its_own_and_a_recipe_without_gates_are_left_alone(
    store: Store, write_recipe: Write, base: Path
) -> None:
    free = register_recipe(store, write_recipe(key="free.v1", gates="none"), actor="ann")
    make_fake_base(base, with_template=False)
    plain = register_recipe(store, write_recipe(key="plain.v1", chat_template="plain"), actor="ann")
    assert (free.notes, plain.notes) == ((), ())
    assert safety(get_recipe(store, "plain.v1").recipe) is None


@pytest.mark.usefixtures("care")
def test_a_base_of_the_hub_is_looked_at_as_well(store: Store, write_recipe: Write, base: Path) -> None:
    hub = FakeHub()
    hub.commit("acme/tiny", base)
    path = write_recipe(base="hub:acme/tiny@main")
    assert safety(get_recipe(store, register_recipe(store, path, actor="ann", hub=hub).key).recipe) == SafetyGate()


def test_a_suite_that_is_installed_later_changes_no_registered_recipe(
    store: Store, write_recipe: Write, tmp_path: Path
) -> None:
    before = register_recipe(store, write_recipe(), actor="ann")
    add_suite(store, write_safety_suite(tmp_path / "care"), CARE, "ann")
    again = register_recipe(store, write_recipe(), actor="ann")
    assert (again.created, again.digest, again.notes) == (False, before.digest, ())


@pytest.mark.usefixtures("care")
def test_a_recipe_that_was_given_safety_is_the_same_one_when_its_file_is_read_again(
    store: Store, write_recipe: Write, tmp_path: Path
) -> None:
    path = write_recipe(evaluation={"suites": [SUITE]})
    first = register_recipe(store, path, actor="ann")
    add_suite(store, write_safety_suite(tmp_path / "larger", counts=(90, 90)), "larger.v1", "ann")
    again = register_recipe(store, path, actor="ann")
    assert (again.created, again.digest) == (False, first.digest)
