"""The parity gate with the embedded server over HTTP: it proves equality, and finds each planted fault."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from ft_resources.serving.errors import BadRequest
from ft_resources.serving.http_server import HttpServer
from tests.workers.packs.corners import corners
from tests.workers.serving.parity.world import FAULTS, FLOAT32, NAME, OLD, Changed, World, serving, without_likeliest
from tests.workers.serving.world import BASE, KEY, Served

pytestmark = pytest.mark.training


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World.make(tmp_path_factory.mktemp("parity"))


@pytest.fixture(scope="module")
def served(world: World) -> Iterator[Served]:
    with serving(world.evaluated.base, {NAME: world.evaluated.adapter, OLD: world.old}) as made:
        yield made


def test_the_embedded_server_gives_what_was_evaluated(world: World, served: Served) -> None:
    report = world.check(served.client)
    assert report.outcome == "proved", report.reasons
    assert report.reasons == ()
    assert report.figures.prompts == report.figures.equal == 24
    assert report.figures.tokens > 200
    assert report.figures.max <= 2e-5
    print(f"the largest difference of a log-probability is {report.figures.max:.3g}")
    # The control differs far more than what is allowed.
    assert report.control.argmax < 0.9
    assert report.control.kl > 100 * report.limits.kl


def test_prompts_are_of_the_holdout_and_of_suites_in_turn(world: World, served: Served) -> None:
    asked = []

    def render(messages):
        asked.append(messages[-1]["content"])
        return world.router()(messages)

    world.check(served.client, render)
    assert len(asked) == 24
    assert sum("thing" in text for text in asked) == sum("steal" in text for text in asked) == 12


@pytest.mark.parametrize(
    "fault",
    corners(
        FAULTS, ["the base's chat template", "the adapter is not loaded", "a beginning token twice, by the server"]
    ),
)
def test_a_planted_fault_is_found(world: World, served: Served, fault: str, tmp_path: Path) -> None:
    report = FAULTS[fault](world, served, tmp_path)
    assert report.outcome == "failed"
    if fault == "a beginning token twice, by the server":
        # It is seen before any figure, and the same in each precision.
        assert "which are not the same" in report.reasons[0]
        return
    # Whatever else is wrong in the server shows in its answers, with the right ids too.
    in_router = fault in ("the base's chat template", "a beginning token twice, by the router")
    assert report.figures.other_ids == (24 if in_router else 0)
    assert report.figures.max > report.limits.max


def test_a_base_that_answers_as_the_adapter_proves_nothing(world: World, served: Served) -> None:
    report = world.check(Changed(served.client, models={BASE: NAME}))
    assert report.outcome == "not proved"
    assert report.reasons == (
        "the base without the adapter keeps the limits too, so these prompts do not show that the adapter is there",
    )


def test_too_few_prompts_prove_nothing(world: World, served: Served) -> None:
    report = world.check(served.client, prompts=6)
    assert report.outcome == "not proved"
    assert "6 prompts are too few" in report.reasons[0]
    assert report.figures.max <= 2e-5


def test_a_server_that_does_not_answer_proves_nothing(world: World, served: Served) -> None:
    closed = HttpServer("http://127.0.0.1:9", KEY)
    report = world.check(closed)
    assert (report.outcome, report.figures) == ("not proved", None)
    assert "127.0.0.1:9" in report.reasons[0]

    report = world.check(Changed(served.client, models={NAME: "acme.things.tiny@nothing"}))
    assert (report.outcome, report.figures) == ("not proved", None)

    report = world.check(Changed(served.client, answer=without_likeliest))
    assert report.outcome == "not proved"
    assert "no finite log-probabilities" in report.reasons[0]


def test_a_router_that_refuses_a_prompt_proves_nothing(world: World, served: Served) -> None:
    def refuse(messages):
        raise BadRequest("no", where="messages")

    assert world.check(served.client, refuse).outcome == "not proved"


def test_half_precision_is_held_to_its_own_noise(world: World) -> None:
    half = FLOAT32.model_copy(update={"dtype": "bfloat16"})
    with serving(world.evaluated.base, {NAME: world.evaluated.adapter}, torch.bfloat16) as made:
        report = world.check(made.client, settings=half)
        as_float32 = world.check(made.client)
    assert report.outcome == "proved", report.reasons
    assert report.noise.p99 > 0
    assert report.limits.p99 == pytest.approx(min(0.15, max(5e-3, 4 * report.noise.p99)))
    assert report.limits.max is None
    assert as_float32.outcome == "failed"
