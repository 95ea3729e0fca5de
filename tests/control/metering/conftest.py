"""A world whose recipe takes four GPUs on two nodes, and a ledger's address on either database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.submissions.estimate_world import World
from tests.postgres import postgres_database


@pytest.fixture
def world(pair_world: World) -> World:
    pair_world.recipe(gpus=2, nodes=2)
    return pair_world


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/metering.db"
    else:
        with postgres_database() as url:
            yield url
