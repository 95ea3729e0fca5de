"""Shared by tests of servers: a store with bases and adapters, and a clock."""

from pathlib import Path

import pytest

from ft_resources.store import Store
from tests.clock import Clock
from tests.control.serving.world import Lines


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    return Lines(Store(str(tmp_path / "store")))


@pytest.fixture
def clock() -> Clock:
    return Clock()
