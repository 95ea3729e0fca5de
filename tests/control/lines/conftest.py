"""A base, a candidate on it, and what is asked for where it is accepted."""

import pytest

from ft_resources.artifacts import Artifact
from ft_resources.work import WorkRequest
from tests.control.conftest import world as world

# The same store on a local disk and on a real S3 server.
from tests.resources.conftest import any_store, s3_endpoint  # noqa: F401
from tests.workers.evals.world import World


@pytest.fixture(scope="session", autouse=True)
def _tokenizers_are_compared_here() -> None:
    """Where transformers is imported already, an export compares tokenizers in this process: seconds less a test."""
    import transformers  # noqa: F401


@pytest.fixture
def base(world: World) -> Artifact:
    return world.base()


@pytest.fixture
def checkpoint(world: World, base: Artifact) -> Artifact:
    return world.checkpoint(base)


@pytest.fixture
def accepted(world: World, base: Artifact, checkpoint: Artifact) -> WorkRequest:
    return world.adapter_request(base, checkpoint, world.eval_report(base, checkpoint))
