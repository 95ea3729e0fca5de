"""A fresh world for each test."""

from pathlib import Path

import pytest

from ft_resources.store import Store
from tests.workers.evals.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(store=Store(str(tmp_path / "store")), folder=tmp_path)
