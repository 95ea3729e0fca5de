"""A store with a suite and a writer of recipes, and a pair whose artifacts nobody computed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.control.registry.conftest import base, store, suite_folder, write_recipe
from tests.control.submissions.conftest import tenants, world
from tests.control.submissions.estimate_world import World
from tests.control.sweeps.made import RATES, make_sweep

__all__ = ["base", "store", "suite_folder", "tenants", "world", "write_recipe"]


@pytest.fixture
def write_sweep(write_recipe: Callable[..., Path]) -> Callable[..., Path]:
    """Writes a recipe of three learning rates; keyword arguments as of ``write_recipe``."""

    def write(**changes: Any) -> Path:
        return write_recipe(**{"key": "rates.v1", "sweep": RATES, **changes})

    return write


@pytest.fixture
def sweep(world: World) -> World:
    """Three learning rates of which nobody trained one."""
    make_sweep(world)
    return world
