"""Our attention is there for every test."""

from collections.abc import Iterator

import pytest

from ft_assets.workers.packs.isolation import choice
from ft_assets.workers.packs.isolation.attention import register


@pytest.fixture
def registered_again() -> Iterator[None]:
    """What a test registers in place of our attention, and what was chosen with it, is gone behind it."""
    yield
    register()
    choice._try.cache_clear()
