"""The fixture ``warm``; a ``conftest.py`` that imports it has workers that are forks in the tests of its folder."""

from collections.abc import Iterator

import pytest

from tests.once import made_once, session_pid, shared_folder
from tests.warm_workers import PLACE, environment, start


@pytest.fixture(scope="session")
def warm_server(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One process that forks, for all folders and all processes of the session, with which it ends."""
    folder = made_once(shared_folder(tmp_path_factory) / "warm_server", lambda new: start(new, session_pid()))
    return str(folder / "warm")


@pytest.fixture(scope="package")
def warm(warm_server: str) -> Iterator[None]:
    """Workers that this process or its children start are forks while the tests of this folder run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PLACE, warm_server)
        for name, value in environment().items():
            patch.setenv(name, value)
        yield
