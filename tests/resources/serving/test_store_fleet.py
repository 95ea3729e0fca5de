"""Adapters of the store on servers that others started: by path, each base's own, and only those that are adapters."""

import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ft_assets.control.serving.decided import require_decided
from ft_assets.settings.servers import ServersFile
from ft_resources.artifacts import Artifact
from ft_resources.errors import CorruptArtifact, Misconfigured, NotFound
from ft_resources.serving.adapter_folders import AdapterFolders
from ft_resources.serving.configured import ConfiguredServers
from ft_resources.serving.embedded import EmbeddedServers
from ft_resources.serving.errors import BadAdapter
from ft_resources.serving.fleet import ServedModel
from ft_resources.serving.servers import Base, ConfiguredServer
from ft_resources.serving.store_fleet import StoreFleet
from ft_resources.signatures import Unsigned, sign, signing_key
from tests.clock import Clock
from tests.control.serving.world import COMMIT, SOURCE, Lines
from tests.signing_keys import make_pair, signs_with, trusts

LINE = "acme.things.tiny"


@dataclass
class Far:
    """A server in vLLM's dialect that computes nothing: the folder of each name."""

    url: str = ""
    loaded: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)


@pytest.fixture
def far() -> Iterator[Far]:
    state = Far()

    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.keys.add(self.headers["authorization"])
            self._answer({"data": [{"id": name} for name in ("the-base", "somebodys-own", *state.loaded)]})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path.endswith("/completions"):
                state.asked.append(asked["model"])
                self._answer({"choices": [{"text": "", "finish_reason": "length", "token_ids": [0]}]})
                return
            if self.path.endswith("/load_lora_adapter"):
                state.loaded[asked["lora_name"]] = asked["lora_path"]
            else:
                del state.loaded[asked["lora_name"]]
            self._answer({})

        def _answer(self, value: object) -> None:
            data = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        state.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield state
        server.shutdown()


@pytest.fixture
def fleet(lines: Lines, far: Far, tmp_path: Path, clock: Clock) -> Iterator[StoreFleet]:
    server = ConfiguredServer(name="far", url=far.url, base=f"{SOURCE}@{COMMIT}", key="secret")
    away = ConfiguredServer(name="away", url="http://127.0.0.1:9", base=f"{SOURCE}@{COMMIT}", key="secret")
    made = StoreFleet(
        lines.artifacts,
        AdapterFolders(tmp_path / "shared", 1 << 20),
        ConfiguredServers([server, away]),
        EmbeddedServers(lines.store, tmp_path / "logs", most=0),
        decided=partial(require_decided, lines.store),
        clock=clock,
    )
    yield made
    made.close()


def wanted(base: Artifact, source: str = f"{SOURCE}@{COMMIT}") -> Base:
    return Base(address=str(base.address), digest=base.digest, source=source)


def model(adapter: Artifact, base: Artifact) -> ServedModel:
    return ServedModel(line=LINE, address=str(adapter.address), digest=adapter.digest, base=base.digest)


def test_what_no_server_has_and_nobody_asks_for_is_forgotten_after_an_hour(
    lines: Lines, fleet: StoreFleet, clock: Clock
) -> None:
    base = lines.base()
    served, gone = (model(lines.adapter(base, seed), base) for seed in (1, 2))
    fleet.provide([wanted(base)])
    (at,) = fleet.endpoints(base.digest)
    for each in (served, gone):
        fleet.load(each, at)
    fleet.unload(gone.name, at)
    for later_s, known in ((3000.0, {served.name, gone.name}), (1000.0, {served.name})):
        clock.advance(later_s)
        fleet.look()
        assert set(fleet._digests) == known
    assert fleet.asked_at(served.name) is None


def test_an_adapter_is_loaded_by_the_path_of_its_verified_copy(
    lines: Lines, far: Far, fleet: StoreFleet, tmp_path: Path
) -> None:
    base = lines.base()
    adapter = lines.adapter(base)
    states = {state.name: state for state in fleet.provide([wanted(base)])}
    assert (states["far"].trouble, bool(states["away"].trouble)) == ("", True)
    (at,) = fleet.endpoints(base.digest)
    assert (at.model, far.keys) == ("the-base", {"Bearer secret"})
    asked = model(adapter, base)
    fleet.load(asked, at)
    assert far.loaded == {asked.name: str(tmp_path / "shared" / adapter.digest)}
    # What the operator loaded under other names is not ours to unload.
    assert fleet.look() == {at: {asked.name}}
    fleet.unload(asked.name, at)
    assert (far.loaded, fleet.look()) == ({}, {at: frozenset()})


def test_a_server_that_was_started_anew_is_told_again_what_it_serves(lines: Lines, far: Far, fleet: StoreFleet) -> None:
    base = lines.base()
    asked = model(lines.adapter(base), base)
    fleet.provide([wanted(base)])
    (at,) = fleet.endpoints(base.digest)
    fleet.load(asked, at)
    far.loaded.clear()
    fleet.load(asked, at)
    assert (fleet.serves(asked, at), far.loaded) == (True, {})
    fleet.forget(asked, at)
    assert not fleet.serves(asked, at)
    fleet.load(asked, at)
    assert far.loaded.keys() == {asked.name}


def test_a_server_that_fetches_is_asked_by_name_and_nothing_is_copied(
    lines: Lines, far: Far, fleet: StoreFleet, tmp_path: Path
) -> None:
    base = lines.base()
    fleet.provide([wanted(base)])
    (at,) = (replace(each, fetches=True) for each in fleet.endpoints(base.digest))
    asked = model(lines.adapter(base), base)
    fleet.load(asked, at)
    assert (far.asked, far.loaded) == ([asked.name], {})
    assert not (tmp_path / "shared").exists()
    # It need not be asked for what it cannot load.
    with pytest.raises(BadAdapter, match="complete model"):
        fleet.load(model(lines.adapter(base, {"model.safetensors": b"1"}), base), at)
    assert far.asked == [asked.name]


def test_a_base_that_no_server_was_started_with_has_no_endpoint(lines: Lines, fleet: StoreFleet) -> None:
    base = lines.base(source="hub:acme/other")
    states = fleet.provide([wanted(base, f"hub:acme/other@{COMMIT}")])
    assert fleet.endpoints(base.digest) == []
    assert {state.base for state in states if state.name == "far"} == {""}


def test_a_base_that_somebody_asks_for_is_wanted_for_ten_minutes_and_it_is_told_why_no_server_starts(
    lines: Lines, fleet: StoreFleet, clock: Clock
) -> None:
    base = lines.base()
    asked = replace(model(lines.adapter(base), base), base_address=str(base.address))
    assert (fleet.want(replace(asked, base_address="")), fleet.wanted()) == ("its base is not known", {})
    assert (fleet.want(asked), fleet.wanted()) == ("", {base.digest: str(base.address)})
    clock.now += 599
    fleet.endpoints(base.digest)
    clock.now += 599
    assert fleet.wanted() == {base.digest: str(base.address)}
    fleet.provide([wanted(base, f"hub:acme/other@{COMMIT}")])
    assert "0 bases are served here already" in fleet.want(asked)
    clock.now += 601
    assert fleet.wanted() == {}


def test_what_is_not_there_and_what_is_a_whole_model_are_refused(lines: Lines, far: Far, fleet: StoreFleet) -> None:
    base = lines.base()
    fleet.provide([wanted(base)])
    (at,) = fleet.endpoints(base.digest)
    whole = lines.adapter(base, {"model.safetensors": b"1"})
    with pytest.raises(BadAdapter, match="complete model"):
        fleet.load(model(whole, base), at)
    with pytest.raises(NotFound):
        fleet.load(ServedModel(line=LINE, address="acme/adapter/none", digest="0" * 64, base=base.digest), at)
    assert far.loaded == {}


def test_a_key_that_is_not_set_is_told_by_its_variable() -> None:
    file = ServersFile.model_validate(
        {"servers": [{"name": "a", "url": "http://a:1", "base": f"{SOURCE}@{COMMIT}", "key": "FT_SERVER_KEY_A"}]}
    )
    with pytest.raises(Misconfigured, match="FT_SERVER_KEY_A"):
        file.configured()


def test_only_signed_adapters_are_loaded_where_signatures_are_demanded(
    lines: Lines, far: Far, fleet: StoreFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = lines.base()
    first, second = lines.adapter(base, 1), lines.adapter(base, 2)
    private, public = make_pair(tmp_path / "keys", "ours")
    signs_with(monkeypatch, private)
    trusts(monkeypatch, public)
    sign(lines.store, first, signing_key())
    fleet.provide([wanted(base)])
    (at,) = fleet.endpoints(base.digest)
    # Bytes that were signed once are no decision that they are served here.
    with pytest.raises(Unsigned, match="no signed decision"):
        fleet.load(model(first, base), at)
    lines.promote(first, base)
    with pytest.raises(Unsigned, match="no signed decision puts it on this base"):
        fleet.load(replace(model(first, base), base="0" * 64), at)
    fleet.load(model(first, base), at)
    with pytest.raises(Unsigned, match="none of the 1 trusted keys signed it"):
        fleet.load(model(second, base), at)
    # The signature of one adapter does not let another one's bytes in.
    with pytest.raises(CorruptArtifact, match="its content is not"):
        fleet.load(replace(model(first, base), digest=second.digest), at)
    assert far.loaded.keys() == {model(first, base).name}
    # What was verified stays, though the store is away.
    fleet.forget(model(first, base), at)
    shutil.rmtree(tmp_path / "store")
    fleet.load(model(first, base), at)
