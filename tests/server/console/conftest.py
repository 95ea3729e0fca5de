"""One console for all tests of a file; those that must not see each other's things take tenants of their own."""

from collections.abc import Iterator

import pytest

from tests.server.console.world import World, open_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("console") / "project") as made:
        yield made
