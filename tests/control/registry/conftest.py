"""A store with one suite, a tiny base beside it, and a writer of recipe files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ft_assets.control.registry.register import RegisteredRecipe, register_recipe
from ft_assets.workers.suites.suites import add_suite
from ft_resources.errors import BadRecipe, UserError
from ft_resources.store import Store
from tests.choice_suite import write_choice_suite
from tests.fake_base import make_fake_base
from tests.fake_hub import FakeHub

SUITE = "tiny-suite.v1"


def contents(store: Store) -> dict[str, bytes]:
    """Every object of a local store, to compare before and after."""
    assert store.root is not None
    return {str(path.relative_to(store.root)): path.read_bytes() for path in store.root.rglob("*") if path.is_file()}


@pytest.fixture
def suite_folder(tmp_path: Path) -> Path:
    items = [{"question": f"{n} is", "choices": ["odd", "even"], "answer": n % 2} for n in range(6)]
    return write_choice_suite(tmp_path / "suite", "parity", items)


@pytest.fixture
def store(store: Store, suite_folder: Path) -> Store:
    add_suite(store, suite_folder, SUITE, "ann")
    return store


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return make_fake_base(tmp_path / "base")


@pytest.fixture
def write_recipe(tmp_path: Path, base: Path) -> Callable[..., Path]:
    """Writes a recipe file beside the base; keyword arguments replace or, with None as value, remove fields."""

    def write(**changes: Any) -> Path:
        recipe: dict[str, Any] = {"key": "tiny.v1", "base": "folder:./base", "evaluation": {"suites": [SUITE]}}
        recipe = {name: value for name, value in (recipe | changes).items() if value is not None}
        path = tmp_path / "recipe.yaml"
        path.write_text(yaml.safe_dump(recipe))
        return path

    return write


def register(store: Store, path: Path, hub: FakeHub | None = None, **more: Any) -> RegisteredRecipe:
    return register_recipe(store, path, actor="ann", hub=hub, **more)


def refused(
    store: Store, path: Path, error: type[UserError] = BadRecipe, hub: FakeHub | None = None, **more: Any
) -> str:
    """The text of the error, after checking that the store is as it was."""
    before = contents(store)
    with pytest.raises(error) as caught:
        register(store, path, hub, **more)
    assert contents(store) == before
    assert caught.value.where
    assert caught.value.remedy
    return str(caught.value)
