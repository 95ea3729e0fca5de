"""A store with a suite and a writer of recipes, and a pair whose artifacts nobody computed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.control.registry.conftest import base, store, suite_folder, write_recipe
from tests.control.submissions.conftest import tenants, untouched_world, world

__all__ = ["base", "store", "suite_folder", "tenants", "untouched_world", "world", "write_recipe"]

RATES = {"search": "grid", "parameters": {"training.learning_rate": [1e-3, 1e-4, 1e-5]}}


@pytest.fixture
def write_sweep(write_recipe: Callable[..., Path]) -> Callable[..., Path]:
    """Writes a recipe of three learning rates; keyword arguments as of ``write_recipe``."""

    def write(**changes: Any) -> Path:
        return write_recipe(**{"key": "rates.v1", "sweep": RATES, **changes})

    return write
