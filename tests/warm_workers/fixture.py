"""The fixture ``warm``; a ``conftest.py`` that imports it has workers that are forks in the tests of its folder."""

from collections.abc import Iterator

import pytest

from tests.warm_workers import PLACE, environment, started


@pytest.fixture(scope="session")
def warm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One process that forks, for all folders."""
    with started(tmp_path_factory.mktemp("warm")) as place:
        yield place


@pytest.fixture(scope="package")
def warm(warm_server: str) -> Iterator[None]:
    """Workers that this process or its children start are forks while the tests of this folder run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PLACE, warm_server)
        for name, value in environment().items():
            patch.setenv(name, value)
        yield
