"""A pair on a GPU, and the tenants file."""

from pathlib import Path

import pytest

from ft_assets.control.submissions import admission
from tests.control.submissions.estimate_world import Tenants, World, room


@pytest.fixture
def world(pair_world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    # Not that of the machine that tests run on.
    monkeypatch.setattr(admission, "worker_room", lambda wanted: room())
    return pair_world


@pytest.fixture
def tenants(tmp_path: Path) -> Tenants:
    """Call it with the text of the tenants file."""
    return (tmp_path / "tenants.yaml").write_text
