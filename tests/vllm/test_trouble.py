"""What goes wrong around a real vLLM, as users see it who ask through the router."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import openai
import pytest

from ft_assets import api
from ft_assets.server.following import Following
from ft_resources.artifacts import Artifact
from ft_resources.serving.errors import ServerUnavailable
from ft_resources.serving.server import Sampling
from ft_resources.serving.store_fleet import StoreFleet
from tests.e2e.project import Project
from tests.server.conftest import Client, until
from tests.server.conftest import access as access
from tests.server.conftest import client as client
from tests.server.conftest import served as served
from tests.server.conftest import url as url
from tests.vllm.running import RealVllm
from tests.vllm.world import LINE, VllmWorld

# More than it takes to read all of an answer's stream: what is left when the engine dies is still to be written.
LONG = 400
# The made adapters continue it without an end.
PROMPT = "Once upon a time"
# Of a cluster's machine that does other things too.
PATIENCE_S = 180.0


@pytest.fixture
def project(world: VllmWorld, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = world.project
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("DAGSTER_HOME", str(project.folder))
    monkeypatch.setenv("FT_STATE", str(project.folder / "state"))
    monkeypatch.setenv("FT_STORE", project.store_url)
    monkeypatch.setenv("FT_TENANTS", str(project.folder / "tenants.yaml"))
    monkeypatch.setenv("FT_TRACKING", "off")
    return project


@pytest.fixture
def fleet(vllm: RealVllm, world: VllmWorld, project: Project) -> Iterator[StoreFleet]:
    """The vLLM, which follows the lines as with ``ft serve``."""
    made = world.fleet(vllm.url)
    following = Following(api.follow_lines(made, store=project.store), api.watch_drift(store=project.store))
    following.start()
    yield made
    following.stop()
    made.close()


@pytest.fixture(scope="module")
def adapters(world: VllmWorld) -> list[Artifact]:
    return [world.trained, *(world.made(seed) for seed in (31, 32, 33))]


def print_of(adapter: Artifact) -> str:
    return f"fp_{adapter.digest[:16]}"


def ask(client: openai.OpenAI, most: int = 8) -> openai.types.Completion:
    return client.completions.create(model=LINE, prompt=PROMPT, max_tokens=most, temperature=0)


def answers_by(client: openai.OpenAI, adapter: Artifact) -> Callable[[], bool]:
    """Whether the line's name is answered by this adapter now."""

    def look() -> bool:
        try:
            return ask(client).system_fingerprint == print_of(adapter)
        except openai.InternalServerError:
            return False

    return look


@dataclass
class Users:
    """Who ask all the time: fingerprints of the answers, in order, and what failed."""

    prints: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


@contextmanager
def users(client: openai.OpenAI) -> Iterator[Users]:
    seen, gone = Users(), threading.Event()

    def go_on() -> None:
        while not gone.wait(0.05):
            try:
                seen.prints.append(ask(client).system_fingerprint or "")
            except openai.APIError as error:
                seen.failed.append(str(error))

    threads = [threading.Thread(target=go_on) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        gone.set()
        for thread in threads:
            thread.join()


def test_of_two_promotions_within_a_second_the_last_one_answers_and_no_request_fails(
    world: VllmWorld, fleet: StoreFleet, client: Client, adapters: list[Artifact]
) -> None:
    acme = client()
    world.lines.promote(adapters[0], world.base)
    until(answers_by(acme, adapters[0]), PATIENCE_S)
    with users(acme) as seen:
        world.lines.promote(adapters[1], world.base)
        world.lines.promote(adapters[2], world.base)
        until(lambda: seen.prints[-20:] == [print_of(adapters[2])] * 20, PATIENCE_S)
    assert seen.failed == []
    # Whoever saw the first one did so before the second.
    order = [print_of(each) for each in adapters[:3]]
    assert set(seen.prints) <= set(order)
    until(lambda: not api.serving_status().drift, PATIENCE_S)


def test_a_rollback_while_the_promoted_one_is_loaded_leaves_the_old_one_answering(
    world: VllmWorld, fleet: StoreFleet, client: Client, adapters: list[Artifact]
) -> None:
    # Its copy takes a second or two.
    acme, new = client(), world.made(34, beside_mb=300)
    world.lines.promote(adapters[0], world.base)
    until(answers_by(acme, adapters[0]), PATIENCE_S)
    with users(acme) as seen:
        world.lines.promote(new, world.base)
        until(lambda: [name for _, name in fleet.loading()] == [world.model(new).name])
        world.lines.promote(adapters[0], world.base, kind="rollback")
        assert fleet.loading()
        until(lambda: not fleet.loading(), PATIENCE_S)
        before = len(seen.prints)
        until(lambda: len(seen.prints) > before + 20, PATIENCE_S)
    assert seen.failed == []
    # Both users may have asked before the rollback.
    assert set(seen.prints[before + 2 :]) == {print_of(adapters[0])}
    until(lambda: not api.serving_status().drift, PATIENCE_S)


def test_a_copy_damaged_on_disk_is_fetched_again(vllm: RealVllm, world: VllmWorld) -> None:
    adapter = world.made(35)
    name, greedy = world.model(adapter).name, Sampling(max_tokens=12)
    right = vllm.client.complete(name, [70, 80, 90], greedy)
    vllm.client.unload(name)
    damaged = world.folder / "cache" / "adapters" / adapter.digest / "adapter_model.safetensors"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:100])
    assert vllm.client.complete(name, [70, 80, 90], greedy) == right
    assert damaged.read_bytes() == whole


def test_an_engine_that_dies_in_an_answer_ends_it_and_the_next_one_answers_as_before(
    world: VllmWorld, vllm: RealVllm, fleet: StoreFleet, client: Client, adapters: list[Artifact]
) -> None:
    acme = client()
    world.lines.promote(adapters[1], world.base)
    until(answers_by(acme, adapters[1]), PATIENCE_S)
    whole = ask(acme, LONG).choices[0]
    assert whole.finish_reason == "length", "an answer that is long enough to be interrupted"
    parts: list[str] = []

    def read() -> None:
        for part in stream:
            if not parts:
                vllm.kill_engine()
            parts.append(part.choices[0].text)

    stream = acme.completions.create(model=LINE, prompt=PROMPT, max_tokens=LONG, temperature=0, stream=True)
    with pytest.raises(openai.APIError, match="The server of this model failed") as caught:
        read()
    assert caught.value.code == "model_unavailable"
    assert whole.text.startswith("".join(parts))
    assert "".join(parts) != whole.text
    with pytest.raises(openai.InternalServerError) as refused:
        ask(acme)
    assert refused.value.status_code == 503
    with pytest.raises(ServerUnavailable):
        vllm.client.models()
    # As a Deployment does.
    vllm.start()
    until(answers_by(acme, adapters[1]), PATIENCE_S)
    assert ask(acme, LONG).choices[0].text == whole.text
