"""Fixtures of the store, artifacts and execution tests."""

from pathlib import Path

import pytest

from ft_resources.artifacts import Artifacts
from ft_resources.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


@pytest.fixture
def artifacts(store: Store) -> Artifacts:
    return Artifacts(store)
