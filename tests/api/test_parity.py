"""Parity through the API: from a line to a record, with the embedded server in a fleet."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ft_assets import api
from ft_assets.control.parity.proofs import proofs_of
from ft_assets.control.parity.servers import settings_by_server
from ft_assets.settings.servers import ComputingSettings, ServersFile
from ft_assets.settings.servers import ServerSettings as Listed
from ft_assets.workers.evals.chat_prompts import ChatPrompts
from ft_assets.workers.evals.samples import write_suite_samples
from ft_assets.workers.suites.suites import TASK_FILE
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import Misconfigured, NotFound, UserError
from ft_resources.serving.errors import NoServer, ServerUnavailable
from ft_resources.serving.fleet import Endpoint, ServedModel
from ft_resources.serving.http_server import HttpServer
from ft_resources.store import Store
from tests.fake_base import make_fake_base
from tests.workers.evals.safety_world import write_safety_suite
from tests.workers.evals.test_golden import write_golden
from tests.workers.evals.world import World, evaluation
from tests.workers.serving.world import BASE, KEY, Served, make_adapter, make_engine

pytestmark = pytest.mark.training
LINE = "acme.things.tiny"
HUB, COMMIT = "hub:org/model", "0" * 40
FLOAT32 = api.ServerSettings(engine="embedded", dtype="float32")


@dataclass
class OneServer:
    """A fleet of one server, which has a folder for each adapter."""

    served: Served
    folders: dict[str, Path] = field(default_factory=dict)

    def endpoints(self, base: str) -> list[Endpoint]:
        return [Endpoint(name="one", base=base, model=BASE, url=self.served.url, key=KEY)]

    def want(self, model: ServedModel) -> str:
        return "none starts"

    def serves(self, model: ServedModel, endpoint: Endpoint) -> bool:
        return False

    def forget(self, model: ServedModel, endpoint: Endpoint) -> None:
        pass

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
    lock = {"kind": "hub", "source": HUB, "revision": COMMIT}
    return world.publish("base_model", make_fake_base(world.folder / "base"), tenant="shared", params={"lock": lock})


@pytest.fixture(scope="module")
def adapter(world: World, base: Artifact) -> Artifact:
    suite = write_safety_suite(world.folder / "suite", counts=(20, 20))
    (suite / "care.yaml").rename(suite / TASK_FILE)
    inputs = {
        "base": base,
        "dataset": world.dataset(holdout=30),
        "safety:care.v1": world.publish("safety_suite", suite, tenant="shared"),
    }
    golden = write_golden(
        world.folder / "ours", {"prompt": "where is it?", "expected": "no model says so"}, max_new_tokens=8
    )
    (golden / "ours.yaml").rename(golden / TASK_FILE)
    inputs["suite:ours.v1"] = world.publish("eval_suite", golden, tenant="shared")
    write_suite_samples(world.folder / "ours.parquet", ("1",), candidate=(0.0,))
    samples = (world.folder / "ours.parquet").read_bytes()
    settings = evaluation(holdout={"metrics": [], "max_samples": 30, "max_new_tokens": 12}, suites=["care.v1"])
    params = {"evaluation": settings, "chat_template": None, "variant": "lora"}
    files = {"report.json": b"{}", "samples/ours.v1.parquet": samples}
    report = world.publish("eval_report", files, inputs=inputs, params=params)
    files = make_adapter(world.folder / "adapter", base.folder(world.folder), seed=1)
    for file in base.folder(world.folder).iterdir():
        # As an adapter is exported: with the tokenizer and the template that it is asked by.
        if file.suffix != ".safetensors" and not (files / file.name).exists():
            shutil.copy(file, files)
    return world.publish("adapter", files, inputs={"base": base, "eval_report": report}, facts={"line": LINE})


@pytest.fixture(scope="module")
def fleet(world: World, base: Artifact, adapter: Artifact) -> Iterator[OneServer]:
    served = Served(make_engine(base.folder(world.folder)))
    yield OneServer(served, {str(adapter.address): adapter.folder(world.folder)})
    served.close()


@pytest.fixture
def render(world: World, base: Artifact) -> api.Render:
    folder = base.folder(world.folder)
    rows = ChatPrompts(folder, ChatTokenizer.load(folder), None)
    return lambda messages: rows.prompt(messages, "request")


def test_a_server_is_checked_for_a_line_and_the_record_stays(
    world: World, base: Artifact, adapter: Artifact, fleet: OneServer, render: api.Render
) -> None:
    (endpoint,) = fleet.endpoints(base.digest)
    assert api.show_parity(LINE, store=world.store) == []
    record = api.check_parity(LINE, fleet, endpoint, FLOAT32, render=render, store=world.store, actor="ann")
    assert record.report.outcome == "proved", record.report.reasons
    assert record.report.suites["ours.v1"].sentence == (
        "0 through the server, 0 in the evaluation; of 1 items 0 are worse and 0 better"
    )
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
    with pytest.raises(UserError, match="complete model"):
        api.check_parity(str(whole.address), fleet, endpoint, FLOAT32, render=render, store=world.store)


class Shown:
    """Who shows parity: it takes down of which adapters."""

    def __init__(self) -> None:
        self.adapters: list[str] = []

    def show_parity(self, artifacts: Artifacts, adapter: Artifact) -> bool:
        self.adapters.append(str(adapter.address))
        return True


def test_the_embedded_server_is_started_and_proved_with_the_settings_that_it_has_here(
    world: World, base: Artifact, adapter: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FT_CACHE", str(world.folder / "cache"))
    shown, address = Shown(), str(adapter.address)
    (record,) = api.check_servers(
        address, prompts=24, store=world.store, servers=ServersFile(), actor="ann", orchestrator=shown
    )
    assert record.report.outcome == "proved", record.report.reasons
    (settings,) = settings_by_server(base, ServersFile()).values()
    assert record.report.settings == settings
    assert record.adapter == adapter.ref
    # It is what a promotion finds.
    (proof,) = proofs_of(world.artifacts, adapter, ServersFile())
    assert proof.record is not None
    assert proof.record.id == record.id
    assert shown.adapters == [address]


def test_only_what_a_name_means_is_checked(world: World, adapter: Artifact) -> None:
    for name in (LINE, f"{LINE}@staging", f"{LINE}@{adapter.digest[:16]}"):
        with pytest.raises(NotFound):
            # It stands nowhere.
            api.check_servers(name, store=world.store, servers=ServersFile())


def listed(served: Served, engine: str) -> ServersFile:
    """The server as one that others started."""
    computes = ComputingSettings(engine=engine, dtype="float32")
    one = Listed(name="one", url=served.url, base=f"{HUB}@{COMMIT}", key="FT_SERVER_KEY_ONE", computes=computes)
    return ServersFile(servers=[one])


def test_a_listed_server_is_checked_with_the_settings_that_the_list_says(
    world: World, adapter: Artifact, fleet: OneServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FT_CACHE", str(world.folder / "cache"))
    monkeypatch.setenv("FT_SERVER_KEY_ONE", KEY)
    servers, address = listed(fleet.served, "vllm 0.32.0"), str(adapter.address)
    (record,) = api.check_servers(address, prompts=24, store=world.store, servers=servers, orchestrator=Shown())
    assert record.report.outcome == "proved", record.report.reasons
    assert (record.server, record.report.settings.sentence) == ("one", "vllm 0.32.0, float32")

    monkeypatch.setattr(HttpServer, "version", lambda _: "0.33.0")
    before = api.show_parity(address, store=world.store)
    with pytest.raises(Misconfigured, match=r"reports version 0\.33\.0, but its settings have vllm 0\.32\.0"):
        api.check_servers(address, store=world.store, servers=servers, orchestrator=Shown())
    silent = ServersFile(servers=[each.model_copy(update={"computes": None}) for each in servers.servers])
    with pytest.raises(Misconfigured, match="computes is not set for one"):
        api.check_servers(address, store=world.store, servers=silent, orchestrator=Shown())
    assert api.show_parity(address, store=world.store) == before


def test_a_listed_server_that_does_not_answer_leaves_no_record(
    world: World, adapter: Artifact, fleet: OneServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FT_SERVER_KEY_ONE", KEY)
    before = api.show_parity(str(adapter.address), store=world.store)
    servers = listed(fleet.served, "vllm 0.32.0")
    away = ServersFile(servers=[each.model_copy(update={"url": "http://127.0.0.1:9"}) for each in servers.servers])
    with pytest.raises(NoServer, match="one: "):
        api.check_servers(str(adapter.address), store=world.store, servers=away, orchestrator=Shown())
    assert api.show_parity(str(adapter.address), store=world.store) == before
