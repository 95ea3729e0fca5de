"""The parity gate, beside the embedded server over HTTP: it proves what is equal, and sees each planted fault."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from ft_resources.serving.errors import BadRequest
from ft_resources.serving.http_server import HttpServer
from tests.workers.serving.parity.world import FLOAT32, NAME, OLD, Changed, World, without_likeliest
from tests.workers.serving.served import KEY, Served
from tests.workers.serving.world import BASE, make_engine

pytestmark = pytest.mark.training
BOS = 1


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World.make(tmp_path_factory.mktemp("parity"))


@pytest.fixture(scope="module")
def served(world: World) -> Iterator[Served]:
    made = Served(make_engine(world.evaluated.base))
    made.client.load(NAME, world.evaluated.adapter)
    made.client.load(OLD, world.old)
    yield made
    made.close()


@pytest.fixture
def serve(world: World) -> Iterator[Callable[[Path, Path], Served]]:
    """Another server: of this base, with NAME from this folder."""
    started: list[Served] = []

    def start(base: Path, adapter: Path, dtype: torch.dtype = torch.float32) -> Served:
        made = Served(make_engine(base, dtype=dtype))
        started.append(made)
        made.client.load(NAME, adapter)
        return made

    yield start
    for made in started:
        made.close()


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
        return world.render()(messages)

    world.check(served.client, render)
    assert len(asked) == 24
    assert sum("thing" in text for text in asked) == sum("steal" in text for text in asked) == 12


def test_the_bases_template_is_found(world: World, served: Served) -> None:
    report = world.check(served.client, world.render(None))
    assert report.outcome == "failed"
    assert "24 of 24 prompts have other token ids" in report.reasons[0]


def test_a_beginning_token_twice_is_found_in_the_router_and_in_the_server(world: World, served: Served) -> None:
    render = world.render()
    report = world.check(served.client, lambda messages: [BOS, *render(messages)])
    assert report.outcome == "failed"
    assert "other token ids" in report.reasons[0]

    report = world.check(Changed(served.client, prompt=lambda ids: [BOS, *ids]))
    assert report.outcome == "failed"
    assert report.figures.other_ids == 0


def test_another_revision_of_the_base_is_found(world: World, serve, tmp_path: Path) -> None:
    other = serve(world.perturbed_base(tmp_path / "base"), world.evaluated.adapter)
    report = world.check(other.client)
    assert report.outcome == "failed"
    # Its greedy answers would not show it.
    assert report.figures.max > report.limits.max


def test_lost_scaling_is_found(world: World, serve, tmp_path: Path) -> None:
    other = serve(world.evaluated.base, world.unscaled_adapter(tmp_path / "unscaled"))
    assert world.check(other.client).outcome == "failed"


def test_an_adapter_that_is_not_there_is_found(world: World, served: Served) -> None:
    report = world.check(Changed(served.client, models={NAME: BASE}))
    assert report.outcome == "failed"


def test_a_cache_of_the_adapter_before_it_is_found(world: World, served: Served) -> None:
    assert world.check(Changed(served.client, models={NAME: OLD})).outcome == "failed"


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


def test_half_precision_is_held_to_its_own_noise(world: World, serve) -> None:
    half = FLOAT32.model_copy(update={"dtype": "bfloat16"})
    server = serve(world.evaluated.base, world.evaluated.adapter, torch.bfloat16).client
    report = world.check(server, settings=half)
    assert report.outcome == "proved", report.reasons
    assert report.noise.p99 > 0
    assert report.limits.p99 == pytest.approx(min(0.15, max(5e-3, 4 * report.noise.p99)))
    assert report.limits.max is None
    # The same server does not pass for one of float32.
    assert world.check(server).outcome == "failed"
