"""A fresh world for each test."""

from pathlib import Path

import pytest

# Where it is imported already, tokenizers are compared in this process, which saves seconds a test.
import transformers  # noqa: F401

from ft_resources.artifacts import Artifact
from ft_resources.store_marker import open_store
from ft_resources.work import WorkRequest
from tests.control.lines.promotable import Promotable

# The same store on a local disk and on a real S3 server.
from tests.resources.conftest import any_store, s3_endpoint, store  # noqa: F401
from tests.workers.evals.world import World


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


@pytest.fixture
def base(world: World) -> Artifact:
    return world.base()


@pytest.fixture
def checkpoint(world: World, base: Artifact) -> Artifact:
    return world.checkpoint(base)


@pytest.fixture
def accepted(world: World, base: Artifact, checkpoint: Artifact) -> WorkRequest:
    return world.adapter_request(base, checkpoint, world.eval_report(base, checkpoint))
