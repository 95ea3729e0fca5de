"""Parity of a real vLLM in float32 with what was evaluated, through the API and by the plug-in."""

from collections.abc import Iterator

import pytest

from ft_assets import api
from ft_resources.artifacts import Artifact
from ft_resources.serving.store_fleet import StoreFleet
from tests.vllm.running import RealVllm
from tests.vllm.world import LINE, VllmWorld

FLOAT32 = api.ServerSettings(engine="vllm 0.32.0", dtype="float32")


@pytest.fixture(scope="module")
def adapter(world: VllmWorld) -> Artifact:
    return world.adapter(21)


@pytest.fixture
def fleet(vllm: RealVllm, world: VllmWorld) -> Iterator[StoreFleet]:
    made = world.fleet(vllm.url)
    yield made
    made.close()


def check(world: VllmWorld, fleet: StoreFleet, adapter: Artifact, render: api.Render) -> api.ParityReport:
    (endpoint,) = fleet.endpoints(world.base.digest)
    record = api.check_parity(
        str(adapter.address), fleet, endpoint, FLOAT32, render=render, store=world.lines.store, actor="ann"
    )
    assert (record.adapter, record.line, record.server) == (adapter.ref, LINE, "vllm")
    return record.report


def test_vllm_gives_what_was_evaluated(vllm: RealVllm, world: VllmWorld, fleet: StoreFleet, adapter: Artifact) -> None:
    assert f"vllm {vllm.client.version()}" == FLOAT32.engine
    report = check(world, fleet, adapter, world.render)
    assert report.outcome == "proved", report.reasons
    assert (report.figures.prompts, report.figures.equal, report.figures.argmax) == (50, 50, 1.0)
    assert report.figures.max <= 2e-5
    assert report.control.argmax < 0.9
    print(f"{report.figures.tokens} places, KL {report.figures.kl:.2g}, max {report.figures.max:.3g}")


def test_another_template_fails(world: VllmWorld, fleet: StoreFleet, adapter: Artifact) -> None:
    report = check(world, fleet, adapter, lambda messages: [0, *world.render(messages)])
    assert report.outcome == "failed"
    assert report.figures.other_ids == 50
