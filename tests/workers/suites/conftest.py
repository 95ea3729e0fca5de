"""A store, and the folders of the suites in it."""

from pathlib import Path

import pytest

from ft_assets.workers.suites.registered import get_suite
from ft_resources.artifacts import Address, Artifacts, InputRef
from ft_resources.store import Store
from ft_resources.store_marker import open_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"), create=True)


def folder_of(store: Store, suite: str | InputRef, scratch: Path) -> Path:
    """The files of a suite, named by its key or by its artifact."""
    ref = get_suite(store, suite) if isinstance(suite, str) else suite
    return Artifacts(store).get(Address.parse(ref.address)).folder(scratch)
