"""The fixture ``warm``; a ``conftest.py`` that imports it has one process that forks for all tests of its folder."""

from collections.abc import Iterator

import pytest

from tests.warm_workers import warm_workers


@pytest.fixture(scope="package")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Workers are forks while the tests of this folder run."""
    with warm_workers(tmp_path_factory.mktemp("warm")):
        yield
