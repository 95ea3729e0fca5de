"""The behaviour that the platform needs from a model server: the same tests for the embedded one and a real vLLM."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from ft_resources.errors import NotFound, NotIdentified
from ft_resources.serving.errors import BadAdapter, BadRequest
from ft_resources.serving.http_server import HttpServer
from ft_resources.serving.server import Sampling
from tests.vllm.conftest import dtype as dtype
from tests.vllm.conftest import one_vllm as one_vllm
from tests.vllm.conftest import vllm as vllm
from tests.vllm.conftest import warm as warm
from tests.vllm.conftest import world as world
from tests.vllm.world import DEMO_BASE
from tests.workers.serving.world import BASE, Served, alone, make_adapter, make_engine, plain, scored_alone

GREEDY = Sampling(max_tokens=12, logprobs=2)
PROMPT = [70, 80, 90]
ONE, TWO = "acme.a.tiny@1111111111111111", "acme.a.tiny@2222222222222222"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("protocol")
    return {name: make_adapter(folder / name, DEMO_BASE, seed=n, std=0.05) for n, name in enumerate((ONE, TWO))}


@pytest.fixture(scope="module")
def embedded() -> Iterator[Served]:
    made = Served(make_engine(DEMO_BASE))
    yield made
    made.close()


@pytest.fixture(
    params=[
        pytest.param("embedded", marks=pytest.mark.training),
        pytest.param("vllm", marks=[pytest.mark.training, pytest.mark.vllm]),
    ]
)
def server(request: pytest.FixtureRequest, folders: dict[str, Path]) -> HttpServer:
    client: HttpServer = request.getfixturevalue(request.param).client
    for name, folder in folders.items():
        client.load(name, folder)
    return client


def test_answers_and_scores_are_those_of_each_model_alone(server: HttpServer, folders: dict[str, Path]) -> None:
    assert server.healthy()
    assert server.models()[0] == BASE
    assert {ONE, TWO} <= set(server.models())
    for name in (BASE, ONE, TWO):
        model = plain(DEMO_BASE, folders.get(name))
        ids, logprobs = alone(model, PROMPT, 12, ends={model.generation_config.eos_token_id})
        piece = server.complete(name, PROMPT, GREEDY)
        assert [token.id for token in piece.tokens] == ids
        assert piece.prompt == tuple(PROMPT)
        assert [token.logprob for token in piece.tokens] == pytest.approx(logprobs, abs=2e-5)
        assert all(token.top[token.id] == token.logprob and len(token.top) == 2 for token in piece.tokens)
        # Also of tokens that the model would not write.
        given = [2000, 6, *ids]
        scored = server.score(name, PROMPT, given, top=3)
        assert [token.id for token in scored] == given
        assert [token.logprob for token in scored] == pytest.approx(
            scored_alone(model, [*PROMPT, *given])[len(PROMPT) - 1 :], abs=2e-5
        )
        assert all(len(token.top) == 3 for token in scored)


def test_a_stream_is_the_answer_in_pieces(server: HttpServer) -> None:
    whole = server.complete(ONE, PROMPT, GREEDY)
    pieces = list(server.stream(ONE, PROMPT, GREEDY))
    assert [token.id for piece in pieces for token in piece.tokens] == [token.id for token in whole.tokens]
    assert "".join(piece.text for piece in pieces) == whole.text
    assert pieces[-1].finish_reason == whole.finish_reason


def test_an_answer_ends_at_its_stop_tokens_and_at_its_length(server: HttpServer) -> None:
    ids = [token.id for token in server.complete(ONE, PROMPT, GREEDY).tokens]
    stop = ids[3]
    piece = server.complete(ONE, PROMPT, Sampling(max_tokens=12, stop_token_ids=(stop,)))
    assert [token.id for token in piece.tokens] == ids[: ids.index(stop) + 1]
    assert piece.finish_reason == "stop"
    assert server.complete(ONE, PROMPT, Sampling(max_tokens=2)).finish_reason == "length"


def test_a_seed_draws_the_same_again(server: HttpServer) -> None:
    drawn = Sampling(max_tokens=12, temperature=1.0, top_p=0.9, seed=7)
    first, second = (server.complete(ONE, PROMPT, drawn) for _ in range(2))
    assert first.tokens == second.tokens


def test_rows_of_several_adapters_share_batches_and_keep_their_answers(server: HttpServer) -> None:
    # Not of the base: vLLM 0.32 on a CPU answers those rows by an adapter in such a batch (docs/how-to/vllm.md).
    asked = [(name, [10 + number, 80, 90]) for number in range(8) for name in (ONE, TWO)]
    one_by_one = [[token.id for token in server.complete(name, ids, GREEDY).tokens] for name, ids in asked]
    with ThreadPoolExecutor(12) as pool:
        together = list(pool.map(lambda each: server.complete(each[0], each[1], GREEDY), asked))
    assert [[token.id for token in piece.tokens] for piece in together] == one_by_one


def test_loading_again_is_no_error_and_unloading_lets_answers_finish(
    server: HttpServer, folders: dict[str, Path]
) -> None:
    before = server.complete(TWO, PROMPT, GREEDY)
    server.load(TWO, folders[TWO])
    stream = server.stream(TWO, PROMPT, GREEDY)
    tokens = list(next(stream).tokens)
    server.unload(TWO)
    tokens += [token for piece in stream for token in piece.tokens]
    assert [token.id for token in tokens] == [token.id for token in before.tokens]
    for act in (lambda: server.complete(TWO, PROMPT, GREEDY), lambda: server.unload(TWO)):
        with pytest.raises(NotFound):
            act()


def test_what_is_no_adapter_is_refused_and_the_server_lives(server: HttpServer, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder in ("empty", "missing"):
        # vLLM says of both that they are not found.
        with pytest.raises((BadAdapter, NotFound)):
            server.load(f"acme.a.tiny@{folder}", tmp_path / folder)
    with pytest.raises(BadRequest):
        server.complete(ONE, [7] * 600, GREEDY)
    assert server.complete(ONE, PROMPT, GREEDY).tokens


def test_only_who_has_the_key_is_answered(server: HttpServer) -> None:
    with closing(HttpServer(server.url, "wrong")) as stranger, pytest.raises(NotIdentified):
        stranger.models()
