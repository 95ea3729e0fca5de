"""One vLLM for all tests of a session."""

import os
from collections.abc import Iterator

import pytest

from tests.vllm.running import RealVllm
from tests.vllm.world import DEMO_BASE, VllmWorld
from tests.workers.serving.world import BASE


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> VllmWorld:
    return VllmWorld(tmp_path_factory.mktemp("vllm"))


@pytest.fixture(scope="session")
def vllm(world: VllmWorld) -> Iterator[RealVllm]:
    if not os.environ.get("FT_VLLM_PYTHON"):
        pytest.skip("FT_VLLM_PYTHON is not set: no vLLM")
    made = RealVllm(
        DEMO_BASE,
        BASE,
        world.folder,
        FT_VLLM_BASE=world.source,
        FT_STORE=str(world.lines.store.root),
        FT_CACHE=str(world.folder / "cache"),
        # Two adapters of about 150 KiB each fill none of it; tests of room fill it with other files.
        FT_CACHE_MB="1",
    )
    try:
        made.wait()
        yield made
    finally:
        made.close()
