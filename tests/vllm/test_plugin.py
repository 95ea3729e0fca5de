"""The plug-in in a real vLLM: adapters from the store by their names."""

import time
from pathlib import Path

import pytest

from ft_resources.artifacts import Artifact
from ft_resources.errors import NotFound
from ft_resources.serving.server import Sampling
from tests.vllm.running import RealVllm
from tests.vllm.world import DEMO_BASE, LINE, VllmWorld
from tests.workers.serving.world import BASE, alone, plain

GREEDY = Sampling(max_tokens=12, logprobs=0)
PROMPT = [70, 80, 90]


@pytest.fixture(scope="module")
def adapters(world: VllmWorld) -> list[Artifact]:
    return [world.made(seed) for seed in (11, 12, 13)]


def copies(world: VllmWorld) -> set[str]:
    return {each.name for each in (world.folder / "cache" / "adapters").iterdir() if not each.name.startswith(".")}


def expected(world: VllmWorld, seed: int) -> list[int]:
    return alone(plain(DEMO_BASE, world.weights(seed)), PROMPT, 12)[0]


def test_an_adapter_is_fetched_by_the_first_request_for_it(
    vllm: RealVllm, world: VllmWorld, adapters: list[Artifact]
) -> None:
    name = world.model(adapters[0]).name
    assert name not in vllm.client.models()
    began = time.monotonic()
    piece = vllm.client.complete(name, PROMPT, GREEDY)
    print(f"first answer after {time.monotonic() - began:.2f} s")
    assert [token.id for token in piece.tokens] == expected(world, 11)
    assert name in vllm.client.models()
    assert adapters[0].digest in copies(world)


def test_only_names_with_a_digest_are_fetched(vllm: RealVllm, adapters: list[Artifact]) -> None:
    for name in (LINE, f"{LINE}@staging", f"{LINE}@0123456789abcdef", "../../etc@x"):
        with pytest.raises(NotFound):
            vllm.client.fetch(name)
    assert "does not identify an adapter" in vllm.log.read_text()


def test_a_fleet_has_it_fetched_reads_it_back_and_unloads_it(
    vllm: RealVllm, world: VllmWorld, adapters: list[Artifact]
) -> None:
    fleet = world.fleet(vllm.url)
    model = world.model(adapters[1])
    try:
        (at,) = fleet.endpoints(world.base.digest)
        assert (at.model, at.fetches) == (BASE, True)
        fleet.load(model, at)
        assert model.name in fleet.look()[at]
        fleet.unload(model.name, at)
        assert model.name not in fleet.look()[at]
    finally:
        fleet.close()
    # It was copied by the server, and by nobody else.
    assert not (world.folder / "unused").exists()


def test_more_adapters_than_are_in_memory_keep_their_own_answers(
    vllm: RealVllm, world: VllmWorld, adapters: list[Artifact]
) -> None:
    answers = {}
    for _ in range(2):
        for seed, adapter in zip((11, 12, 13), adapters, strict=True):
            piece = vllm.client.complete(world.model(adapter).name, PROMPT, GREEDY)
            answers[seed] = [token.id for token in piece.tokens]
            assert answers[seed] == expected(world, seed)
    assert len({tuple(each) for each in answers.values()}) == 3


def test_a_swap_drops_no_answer_and_an_unused_copy_makes_room(
    vllm: RealVllm, world: VllmWorld, adapters: list[Artifact], tmp_path: Path
) -> None:
    old, new = (world.model(each) for each in adapters[:2])
    stream = vllm.client.stream(old.name, PROMPT, Sampling(max_tokens=64, stop_token_ids=()))
    tokens = list(next(stream).tokens)
    vllm.client.fetch(new.name)
    vllm.client.unload(old.name)
    tokens += [token for piece in stream for token in piece.tokens]
    whole = alone(plain(DEMO_BASE, world.weights(11)), PROMPT, len(tokens))[0]
    assert [token.id for token in tokens][: len(whole)] == whole

    # Larger than all the cache may be: whatever nobody has goes for it, and what is served stays.
    large = world.made(99, r=16, target_modules="all-linear")
    vllm.client.fetch(world.model(large).name)
    assert adapters[0].digest not in copies(world)
    assert {adapters[1].digest, large.digest} <= copies(world)
    # Asked for again, it is fetched again.
    assert [token.id for token in vllm.client.complete(old.name, PROMPT, GREEDY).tokens] == expected(world, 11)


def test_what_is_archived_is_not_fetched_again(vllm: RealVllm, world: VllmWorld) -> None:
    adapter = world.made(14)
    name = world.model(adapter).name
    vllm.client.fetch(name)
    world.lines.promote(adapter, world.base, "archived")
    vllm.client.unload(name)
    with pytest.raises(NotFound):
        vllm.client.fetch(name)
