"""Parity through the API: from a line to a record, with the embedded server in a fleet."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ft_assets import api
from ft_assets.workers.evals.holdout_rows import ChatRows
from ft_assets.workers.suites.suites import TASK_FILE
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.artifacts import Artifact
from ft_resources.errors import UserError
from ft_resources.serving.errors import ServerUnavailable
from ft_resources.serving.fleet import Endpoint, ServedModel
from ft_resources.store import Store
from tests.workers.evals.safety_world import write_safety_suite
from tests.workers.evals.world import World, evaluation
from tests.workers.serving.served import KEY, Served
from tests.workers.serving.world import BASE, make_adapter, make_engine

pytestmark = pytest.mark.training
LINE = "acme.things.tiny"
FLOAT32 = api.ServerSettings(engine="embedded", dtype="float32")


@dataclass
class OneServer:
    """A fleet of one server, which has a folder for each adapter."""

    served: Served
    folders: dict[str, Path] = field(default_factory=dict)

    def endpoints(self, base: str) -> list[Endpoint]:
        return [Endpoint(name="one", base=base, model=BASE, url=self.served.url, key=KEY)]

    def serves(self, model: ServedModel, endpoint: Endpoint) -> bool:
        return False

    def load(self, model: ServedModel, endpoint: Endpoint) -> None:
        if model.address not in self.folders:
            raise ServerUnavailable("it is being restarted", where=endpoint.name)
        self.served.client.load(model.name, self.folders[model.address])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("parity")
    return World(store=Store(str(folder / "store")), folder=folder)


@pytest.fixture(scope="module")
def base(world: World) -> Artifact:
    return world.base()


@pytest.fixture(scope="module")
def adapter(world: World, base: Artifact) -> Artifact:
    suite = write_safety_suite(world.folder / "suite", counts=(20, 20))
    (suite / "care.yaml").rename(suite / TASK_FILE)
    inputs = {
        "base": base,
        "dataset": world.dataset(holdout=30),
        "safety:care.v1": world.publish("safety_suite", suite, tenant="shared"),
    }
    settings = evaluation(holdout={"metrics": [], "max_samples": 30, "max_new_tokens": 12}, suites=["care.v1"])
    params = {"evaluation": settings, "chat_template": None, "variant": "lora"}
    report = world.publish("eval_report", {"report.json": b"{}"}, inputs=inputs, params=params)
    files = make_adapter(world.folder / "adapter", base.folder(world.folder), seed=1)
    return world.publish("adapter", files, inputs={"base": base, "eval_report": report}, facts={"line": LINE})


@pytest.fixture(scope="module")
def fleet(world: World, base: Artifact, adapter: Artifact) -> Iterator[OneServer]:
    served = Served(make_engine(base.folder(world.folder)))
    yield OneServer(served, {str(adapter.address): adapter.folder(world.folder)})
    served.close()


@pytest.fixture
def render(world: World, base: Artifact) -> api.Render:
    folder = base.folder(world.folder)
    rows = ChatRows(folder, ChatTokenizer.load(folder), None)
    return lambda messages: rows.prompt(messages, "request")


def test_a_server_is_checked_for_a_line_and_the_record_stays(
    world: World, base: Artifact, adapter: Artifact, fleet: OneServer, render: api.Render
) -> None:
    (endpoint,) = fleet.endpoints(base.digest)
    assert api.show_parity(LINE, store=world.store) == []
    record = api.check_parity(LINE, fleet, endpoint, FLOAT32, render=render, store=world.store, actor="ann")
    assert record.report.outcome == "proved", record.report.reasons
    # Of 30 rows of the holdout and 40 prompts of the suite.
    assert record.report.figures.prompts == 50
    assert (record.adapter, record.line, record.server, record.actor) == (adapter.ref, LINE, "one", "ann")

    wrong = api.check_parity(
        str(adapter.address), fleet, endpoint, FLOAT32, render=lambda _: [1, 2, 3], store=world.store, prompts=20
    )
    assert wrong.report.outcome == "failed"
    (last,) = api.show_parity(LINE, store=world.store)
    assert (last.id, last.seq) == (wrong.id, 2)


def test_a_server_of_another_base_and_one_that_cannot_load_leave_no_record(
    world: World, base: Artifact, fleet: OneServer, render: api.Render
) -> None:
    before = api.show_parity(LINE, store=world.store)
    (endpoint,) = fleet.endpoints(base.digest)
    other = replace(endpoint, base="0" * 64)
    with pytest.raises(UserError, match="has the base 0000000000000000"):
        api.check_parity(LINE, fleet, other, FLOAT32, render=render, store=world.store)
    with pytest.raises(ServerUnavailable):
        api.check_parity(LINE, OneServer(fleet.served), endpoint, FLOAT32, render=render, store=world.store)
    assert api.show_parity(LINE, store=world.store) == before


def test_a_whole_model_is_refused(world: World, base: Artifact, fleet: OneServer, render: api.Render) -> None:
    whole = world.publish(
        "adapter", {"model.safetensors": b"1"}, inputs={"base": base}, facts={"line": "acme.things.whole"}
    )
    (endpoint,) = fleet.endpoints(base.digest)
    with pytest.raises(UserError, match="whole model"):
        api.check_parity(str(whole.address), fleet, endpoint, FLOAT32, render=render, store=world.store)
