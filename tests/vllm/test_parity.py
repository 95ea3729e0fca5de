"""Parity of a real vLLM with what was evaluated of a trained adapter: proved when it is right, and each planted fault
is found, in float32 and in half precision."""

from pathlib import Path

import pytest

from ft_assets import api
from ft_assets.control.serving.evaluated import evaluated_as
from ft_assets.workers.serving.prompts import PromptCache
from tests.vllm.planted import FAULTS
from tests.vllm.running import RealVllm
from tests.vllm.world import LINE, VllmWorld
from tests.workers.serving.parity.world import World

pytestmark = pytest.mark.parametrize("dtype", ["bfloat16", "float32"], scope="module")


def settings_of(dtype: str) -> api.ServerSettings:
    return api.ServerSettings(engine="vllm 0.32.0", dtype=dtype)  # type: ignore[arg-type]


def told(report: api.ParityReport) -> str:
    if (figures := report.figures) is None:
        return "; ".join(report.reasons)
    return f"argmax {figures.argmax:.4f}, KL {figures.kl:.2g}, p99 {figures.p99:.2g}, max {figures.max:.2g}"


@pytest.fixture
def parity(world: VllmWorld, dtype: str, tmp_path: Path) -> World:
    """The trained adapter, by the name under which the plug-in finds it."""
    evaluated = evaluated_as(world.artifacts, world.trained, tmp_path / "evaluated")
    world.made(21)
    return World(evaluated, old=world.weights(21), name=world.model(world.trained).name, settings=settings_of(dtype))


def test_vllm_gives_what_was_evaluated_of_a_trained_adapter(vllm: RealVllm, world: VllmWorld, dtype: str) -> None:
    settings = settings_of(dtype)
    assert f"vllm {vllm.client.version()}" == settings.engine
    name, router = world.model(world.trained).name, PromptCache().of(world.trained)
    fleet = world.fleet(vllm.url)
    try:
        (endpoint,) = fleet.endpoints(world.base.digest)
        record = api.check_parity(
            str(world.trained.address),
            fleet,
            endpoint,
            settings,
            render=lambda messages: router.chat([dict(turn) for turn in messages]),
            store=world.project.store,
            actor="ann",
        )
    finally:
        fleet.close()
    report = record.report
    assert report.outcome == "proved", report.reasons
    assert name in vllm.client.models()
    assert (record.adapter, record.line, record.server) == (world.trained.ref, LINE, "vllm")
    assert report.figures.prompts == 50
    assert report.control.argmax < 0.9
    print(f"{dtype}: {report.figures.tokens} places, {report.figures.equal} of 50 equal, {told(report)}")
    if dtype == "float32":
        assert (report.figures.equal, report.figures.argmax) == (50, 1.0)
        assert report.figures.max <= 2e-5
    else:
        # Its limits are the noise of two runs of the same model here, and not those of other models.
        assert report.limits.p99 == pytest.approx(min(0.15, max(5e-3, 4 * report.noise.p99)))
        print(f"noise: KL {report.noise.kl:.2g}, p99 {report.noise.p99:.2g}, max {report.noise.max:.2g}")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(vllm: RealVllm, parity: World, fault: str, tmp_path: Path) -> None:
    report = FAULTS[fault](parity, vllm, tmp_path)
    print(f"{fault}: {report.outcome}: {told(report)}")
    assert report.outcome == "failed"
