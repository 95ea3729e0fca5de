"""One vLLM at a time for all tests: they share one for as long as they want it of the same dtype."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.vllm.running import RealVllm
from tests.vllm.world import DEMO_BASE, VllmWorld
from tests.warm_workers.fixture import warm as warm
from tests.workers.serving.world import BASE


@dataclass
class OneVllm:
    """At most one process: it is large, and fills the cores."""

    world: VllmWorld
    running: RealVllm | None = None

    def of(self, dtype: str) -> RealVllm:
        """A vLLM that computes in ``dtype`` and answers."""
        if self.running is None or self.running.dtype != dtype or not self.running.client.healthy():
            self.close()
            self.running = RealVllm(
                DEMO_BASE,
                BASE,
                self.world.folder,
                dtype,
                FT_VLLM_BASE=self.world.source,
                FT_STORE=self.world.project.store_url,
                FT_CACHE=str(self.world.folder / "cache"),
                # Adapters of a third of it each that are served stay; a test of room fetches one that leaves none.
                FT_CACHE_MB="1",
            )
            self.running.start()
        return self.running

    def close(self) -> None:
        if self.running is not None:
            self.running.close()
        self.running = None


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory, warm: None) -> VllmWorld:
    return VllmWorld(tmp_path_factory.mktemp("vllm"))


@pytest.fixture(scope="package")
def one_vllm(world: VllmWorld) -> Iterator[OneVllm]:
    made = OneVllm(world)
    yield made
    made.close()


@pytest.fixture(scope="module")
def dtype() -> str:
    """What it computes in, unless a module says otherwise."""
    return "float32"


@pytest.fixture(scope="module")
def vllm(one_vllm: OneVllm, dtype: str) -> RealVllm:
    return one_vllm.of(dtype)
