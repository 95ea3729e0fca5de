"""Worlds that several folders share: a store, artifacts in it, a line without adapters, and a pair on a GPU."""

import shutil
from pathlib import Path

import pytest

from ft_resources.store import Store
from ft_resources.store_marker import open_store
from tests.control.lines.promotable import Promotable
from tests.control.submissions.estimate_world import World as Pair
from tests.control.submissions.estimate_world import make_world, world_in
from tests.workers.evals.world import World


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"), create=True)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(store=open_store(str(tmp_path / "store"), create=True), folder=tmp_path)


@pytest.fixture
def judged_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates that are judged once more pass: what is judged, and how, has tests of its own."""
    monkeypatch.setattr("ft_assets.control.lines.eligibility.rejection_reason", lambda *_: "")


@pytest.fixture
def line(world: World, judged_well: None) -> Promotable:
    """A line without adapters yet."""
    return Promotable.make(world)


@pytest.fixture(scope="session")
def untouched_pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a pair's world that tests copy, as adding a dataset version takes its time."""
    folder = tmp_path_factory.mktemp("world")
    make_world(folder)
    return folder


@pytest.fixture
def pair_world(untouched_pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """A pair on a GPU whose inputs are published with facts that nobody computed."""
    (tmp_path / "tenants.yaml").write_text("{}\n")
    monkeypatch.setenv("FT_TENANTS", str(tmp_path / "tenants.yaml"))
    monkeypatch.setenv("FT_TRACKING", "off")
    shutil.copytree(untouched_pair, tmp_path / "world")
    return world_in(tmp_path / "world")
