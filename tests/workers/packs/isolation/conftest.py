"""Our attention is there for every test."""

from collections.abc import Iterator

import pytest

from ft_assets.workers.packs.isolation import choice
from ft_assets.workers.packs.isolation.attention import register


@pytest.fixture
def registered_again() -> Iterator[None]:
    """Restore our attention after a test that registers another one, and forget choices made with that."""
    yield
    register()
    choice._try.cache_clear()
