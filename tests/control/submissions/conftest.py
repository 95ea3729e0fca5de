"""A pair on a GPU, and the tenants file."""

import shutil
from pathlib import Path

import pytest

from ft_assets.control.submissions import admission
from tests.control.submissions.estimate_world import Tenants, World, make_world, room, world_in


@pytest.fixture(scope="session")
def untouched_world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a world that tests copy, as adding a dataset version takes its time."""
    folder = tmp_path_factory.mktemp("world")
    make_world(folder)
    return folder


@pytest.fixture
def world(untouched_world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    (tmp_path / "tenants.yaml").write_text("{}\n")
    monkeypatch.setenv("FT_TENANTS", str(tmp_path / "tenants.yaml"))
    monkeypatch.setenv("FT_TRACKING", "off")
    # Not that of the machine that tests run on.
    monkeypatch.setattr(admission, "worker_room", lambda wanted: room())
    shutil.copytree(untouched_world, tmp_path / "world")
    return world_in(tmp_path / "world")


@pytest.fixture
def tenants(tmp_path: Path) -> Tenants:
    """Call it with the text of the tenants file."""

    def write(text: str) -> None:
        (tmp_path / "tenants.yaml").write_text(text)

    return write
