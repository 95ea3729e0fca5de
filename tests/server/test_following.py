"""What is promoted answers within seconds on a real server, and a rollback is quicker."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ft_assets import api
from ft_assets.server.following import Following
from ft_assets.settings.servers import ServersFile
from ft_resources.artifacts import Artifact
from ft_resources.errors import StoreUnavailable
from ft_resources.serving.fleet import ServedModel
from ft_resources.serving.http_server import HttpServer
from ft_resources.serving.server import Sampling
from ft_resources.serving.store_fleet import StoreFleet
from ft_resources.store import Store
from tests.control.lines.promotable import LINE
from tests.control.serving.world import Lines
from tests.fake_base import make_fake_base
from tests.workers.serving.world import make_adapter

pytestmark = pytest.mark.e2e


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoreFleet]:
    for variable, folder in (("FT_STORE", "store"), ("FT_STATE", "state"), ("FT_CACHE", "cache")):
        monkeypatch.setenv(variable, str(tmp_path / folder))
    store = Store(str(tmp_path / "store"))
    made = api.open_fleet(embedded=1, servers=ServersFile(), store=store)
    following = Following(api.follow_lines(made, store=store), api.watch_drift(store=store))
    following.start()
    yield made
    following.stop()
    made.close()


def until(look: Callable[[], object], most_s: float = 120.0) -> float:
    """Seconds until it is so."""
    began = time.monotonic()
    while not look():
        assert time.monotonic() - began < most_s
        time.sleep(0.05)
    return time.monotonic() - began


def model(adapter: Artifact, base: Artifact) -> ServedModel:
    return ServedModel(line=LINE, address=str(adapter.address), digest=adapter.digest, base=base.digest)


def test_a_promotion_is_served_within_ten_seconds_and_a_rollback_within_five(
    fleet: StoreFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = Lines(Store(str(tmp_path / "store")))
    base = lines.base(make_fake_base(tmp_path / "base"))
    first, second, third = (
        lines.adapter(base, make_adapter(tmp_path / f"adapter{seed}", tmp_path / "base", seed=seed))
        for seed in (1, 2, 3)
    )
    assert api.serving_status().lines == ()

    def serves(adapter: Artifact, stage: str = "production") -> bool:
        return any(
            (each.adapter, each.stage) == (str(adapter.address), stage) and each.servers
            for each in api.serving_status().lines
        )

    lines.promote(first, base)
    started = until(lambda: serves(first))
    lines.promote(second, base)
    promoted = until(lambda: serves(second))
    lines.promote(first, base, kind="rollback")
    rolled_back = until(lambda: serves(first))
    with capsys.disabled():
        print(f"\nfirst {started:.1f} s, promotion {promoted:.1f} s, rollback {rolled_back:.1f} s")
    assert promoted < 30
    assert rolled_back < 15

    (at,) = fleet.endpoints(base.digest)
    client = HttpServer(at.url, at.key)
    answers = {}
    for adapter in (first, second, third):
        # What a rollback left, and what never stood in a stage, answer to who asks for them.
        fleet.load(model(adapter, base), at)
        said = client.complete(model(adapter, base).name, [7, 8, 9], Sampling(max_tokens=12))
        answers[adapter.digest] = [token.id for token in said.tokens]
    assert len({tuple(each) for each in answers.values()}) == 3

    def away(*_: object) -> None:
        raise StoreUnavailable("the bucket does not answer")

    with monkeypatch.context() as outage:
        for name in ("folders", "entries", "get", "download"):
            outage.setattr(Store, name, away)
        until(lambda: "the bucket" in api.serving_status().trouble)
        assert client.complete(model(first, base).name, [7, 8, 9], Sampling(max_tokens=12)).tokens
    until(lambda: not api.serving_status().trouble)

    # Corrupt in the store, and in the copy.
    bad = lines.adapter(base, make_adapter(tmp_path / "bad", tmp_path / "base", seed=4))
    lines.store.local_path(bad.location("adapter_model.safetensors")).write_bytes(b"x")
    lines.promote(bad, base, "staging")
    until(lambda: any("does not match its sha256" in each.trouble for each in api.serving_status().lines))
    assert serves(first)
    lines.promote(second, base)
    until(lambda: serves(second))
