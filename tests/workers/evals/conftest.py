"""A fresh world for each test."""

from pathlib import Path

import pytest

from ft_resources.store_marker import open_store
from tests.workers.evals.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(store=open_store(str(tmp_path / "store"), create=True), folder=tmp_path)
