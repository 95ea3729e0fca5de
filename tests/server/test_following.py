"""Promoted and rolled-back adapters answer on a real server as soon as the follower has looked."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ft_assets import api
from ft_assets.server.answering import Answering, Question
from ft_assets.server.following import Following
from ft_assets.settings.servers import ServersFile
from ft_resources.artifacts import Artifact
from ft_resources.errors import StoreUnavailable
from ft_resources.serving.errors import Starting
from ft_resources.serving.fleet import ServedModel
from ft_resources.serving.http_server import HttpServer
from ft_resources.serving.server import Piece, Sampling
from ft_resources.serving.store_fleet import StoreFleet
from ft_resources.store import Store
from tests.control.lines.promotable import LINE
from tests.control.serving.world import Lines
from tests.fake_base import make_fake_base
from tests.server.conftest import until
from tests.workers.serving.world import make_adapter

pytestmark = pytest.mark.e2e


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    for variable, folder in (("FT_STORE", "store"), ("FT_STATE", "state"), ("FT_CACHE", "cache")):
        monkeypatch.setenv(variable, str(tmp_path / folder))
    return Store(str(tmp_path / "store"))


@pytest.fixture
def fleet(store: Store) -> Iterator[StoreFleet]:
    made = api.open_fleet(embedded=1, servers=ServersFile(), store=store)
    yield made
    made.close()


@pytest.fixture
def follow_until(fleet: StoreFleet, store: Store) -> Callable[[Callable[[], object]], None]:
    """Looks at the lines, again and again, until something is so."""
    following = Following(api.follow_lines(fleet, store=store), api.watch_drift(store=store))

    def follow(there: Callable[[], object]) -> None:
        def look() -> object:
            following.look()
            return there()

        until(look)

    return follow


def model(adapter: Artifact, base: Artifact) -> ServedModel:
    return ServedModel(line=LINE, address=str(adapter.address), digest=adapter.digest, base=base.digest)


def test_a_promotion_and_a_rollback_are_served_once_the_follower_has_looked(
    fleet: StoreFleet,
    store: Store,
    follow_until: Callable[[Callable[[], object]], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = Lines(store)
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
    follow_until(lambda: serves(first))
    lines.promote(second, base)
    follow_until(lambda: serves(second))
    lines.promote(first, base, kind="rollback")
    follow_until(lambda: serves(first))

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
        follow_until(lambda: "the bucket" in api.serving_status().trouble)
        assert client.complete(model(first, base).name, [7, 8, 9], Sampling(max_tokens=12)).tokens
    follow_until(lambda: not api.serving_status().trouble)

    # Corrupt in the store, and in the copy.
    bad = lines.adapter(base, make_adapter(tmp_path / "bad", tmp_path / "base", seed=4))
    lines.store.local_path(bad.location("adapter_model.safetensors")).write_bytes(b"x")
    lines.promote(bad, base, "staging")
    follow_until(lambda: any("does not match its sha256" in each.trouble for each in api.serving_status().lines))
    assert serves(first)
    lines.promote(second, base)
    follow_until(lambda: serves(second))


def test_who_asks_for_an_adapter_in_no_stage_has_a_server_started_and_then_an_answer(
    fleet: StoreFleet, store: Store, follow_until: Callable[[Callable[[], object]], None], tmp_path: Path
) -> None:
    lines = Lines(store)
    base = lines.base(make_fake_base(tmp_path / "base"))
    adapter = lines.adapter(base, make_adapter(tmp_path / "adapter", tmp_path / "base", seed=1))
    asked = replace(model(adapter, base), base_address=str(base.address))
    question = Question(model=asked, prompt=[5, 6], most=2, sampling=lambda most: Sampling(max_tokens=most), where="")

    async def ask() -> list[Piece]:
        answering = Answering(fleet)
        try:
            return [piece async for piece in await answering.ask(question)]
        finally:
            await answering.close()

    def answer() -> list[Piece]:
        try:
            return asyncio.run(ask())
        except Starting:
            told.append("starting")
            return []

    told: list[str] = []
    follow_until(answer)
    assert told
