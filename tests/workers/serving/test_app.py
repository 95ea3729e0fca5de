"""The engine over HTTP, with the client that is also used for vLLM."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from ft_resources.errors import NotFound, NotIdentified
from ft_resources.serving.errors import BadAdapter, BadRequest, NameTaken, ServerBusy
from ft_resources.serving.http_server import HttpServer
from ft_resources.serving.server import Sampling, Server
from tests.workers.serving.world import BASE, KEY, Served, alone, make_engine, plain, scored_alone

pytestmark = pytest.mark.training
GREEDY = Sampling(max_tokens=12, logprobs=2)


@pytest.fixture(scope="module")
def served(base: Path, adapters: dict[str, Path]) -> Iterator[Served]:
    made = Served(make_engine(base))
    for name in ("acme.support@1", "acme.support@2"):
        made.client.load(name, adapters[name])
    yield made
    made.close()


def test_answers_and_scores_are_those_of_each_model_alone(
    served: Served, base: Path, adapters: dict[str, Path]
) -> None:
    server: Server = served.client
    assert server.models() == [BASE, "acme.support@1", "acme.support@2"]
    for name in server.models():
        model = plain(base, adapters.get(name))
        ids, logprobs = alone(model, [7, 8, 9], 12)
        piece = server.complete(name, [7, 8, 9], GREEDY)
        assert [token.id for token in piece.tokens] == ids
        assert [token.logprob for token in piece.tokens] == pytest.approx(logprobs, abs=1e-5)
        assert all(token.top[token.id] == token.logprob and len(token.top) == 2 for token in piece.tokens)
        scored = server.score(name, [7, 8, 9], ids, top=3)
        assert [token.id for token in scored] == ids
        assert [token.logprob for token in scored] == pytest.approx(scored_alone(model, [7, 8, 9, *ids])[2:], abs=1e-5)
        assert all(len(token.top) == 3 for token in scored)


def test_a_stream_is_the_answer_in_pieces(served: Served) -> None:
    whole = served.client.complete("acme.support@1", [7, 8, 9], GREEDY)
    pieces = list(served.client.stream("acme.support@1", [7, 8, 9], GREEDY))
    assert tuple(token.id for piece in pieces for token in piece.tokens) == tuple(token.id for token in whole.tokens)
    assert "".join(piece.text for piece in pieces) == whole.text
    assert [piece.finish_reason for piece in pieces] == [None] * (len(pieces) - 1) + [whole.finish_reason]
    assert len(pieces) == len(whole.tokens)


def test_usage_comes_last_if_it_is_asked_for(served: Served) -> None:
    asked = {"model": BASE, "prompt": [7, 8, 9], "max_tokens": 3, "temperature": 0}
    usage = {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6}
    assert served.post(**asked).json()["usage"] == usage
    lines = served.post(**asked, stream=True, stream_options={"include_usage": True}).text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    assert json.loads(lines[-3].removeprefix("data: "))["usage"] == usage


def test_only_who_has_the_key_is_answered(served: Served) -> None:
    for key in ("", "wrong", KEY + "x"):
        with pytest.raises(NotIdentified, match="key"):
            HttpServer(served.url, key or "none").models()
    for path in ("/metrics", "/v1/models", "/docs"):
        assert httpx.get(served.url + path, trust_env=False).status_code == 401
    assert HttpServer(served.url, "none").healthy()


def test_wrong_requests_get_errors_in_openais_form(served: Served) -> None:
    asked = {"model": BASE, "prompt": [7], "max_tokens": 1}
    for changes, status, code, said in (
        ({"prompt": [7] * 256}, 400, "context_length_exceeded", ""),
        ({"prompt": []}, 400, "invalid_value", ""),
        ({"prompt": "text"}, 400, "invalid_value", "prompt must be a list"),
        ({"prompt": [7, "a"]}, 400, "invalid_value", "prompt.1 must be a whole number"),
        ({"prompt": [300]}, 400, "invalid_value", ""),
        ({"max_tokens": 0}, 400, "invalid_value", "max_tokens must be at least 1"),
        ({"logprobs": 21}, 400, "invalid_value", "logprobs must be at most 20"),
        ({"n": 2}, 400, "invalid_value", "n must be 1"),
        ({"stream": "perhaps"}, 400, "invalid_value", "stream must be true or false"),
        ({"stream_options": 1}, 400, "invalid_value", "stream_options must be an object"),
        ({"repetition_penalty": 1.1}, 400, "invalid_value", "repetition_penalty is not supported here: leave it out"),
        ({"prompt_logprobs": 1, "stream": True}, 400, "invalid_value", ""),
        ({"model": "unknown"}, 404, "model_not_found", ""),
    ):
        answer = served.post(**{**asked, **changes})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["type"]) == (status, code, "invalid_request_error"), changes
        assert set(error) == {"message", "type", "param", "code"}
        assert error["message"].startswith(f"{said}. Correct the request." if said else ""), changes
    for body, said in ((b"{", "The body is not valid JSON."), (b"[]", "The body must be an object.")):
        url, key = f"{served.url}/v1/completions", {"authorization": f"Bearer {KEY}"}
        told = httpx.post(url, content=body, headers=key, trust_env=False).json()["error"]["message"]
        assert told == f"{said} Correct the request."


def test_adapters_come_and_go_by_name(served: Served, adapters: dict[str, Path], tmp_path: Path) -> None:
    client = served.client
    client.load("dora", adapters["dora"])
    client.load("dora", adapters["dora"])
    with pytest.raises(NameTaken):
        client.load("dora", adapters["rs"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadAdapter):
        client.load("empty", tmp_path / "empty")
    with pytest.raises(NotFound):
        client.load("missing", tmp_path / "missing")
    before = client.complete("dora", [7, 8, 9], GREEDY)
    stream = client.stream("dora", [7, 8, 9], GREEDY)
    first = next(stream)
    client.unload("dora")
    tokens = [*first.tokens, *(token for piece in stream for token in piece.tokens)]
    assert [token.id for token in tokens] == [token.id for token in before.tokens]
    for act in (lambda: client.complete("dora", [7], GREEDY), lambda: client.unload("dora")):
        with pytest.raises(NotFound, match="dora"):
            act()
    with pytest.raises(BadRequest):
        client.unload(BASE)


def test_a_client_that_goes_away_ends_its_generation(base: Path) -> None:
    served = Served(make_engine(base, max_rows=1))
    try:
        stream = served.client.stream(BASE, [7, 8, 9], Sampling(max_tokens=240))
        next(stream)
        stream.close()
        # Drawn tokens may end it at once.
        asked = {"model": BASE, "prompt": [7], "max_tokens": 240, "temperature": 0}
        with pytest.raises(httpx.TimeoutException):
            httpx.post(
                f"{served.url}/v1/completions",
                json=asked,
                headers={"authorization": f"Bearer {KEY}"},
                timeout=0.03,
                trust_env=False,
            )
        deadline = time.monotonic() + 600
        while served.engine.figures().running + served.engine.figures().waiting:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert served.engine.figures().generation_tokens < 480
    finally:
        served.close()


def test_two_hundred_clients_at_once_get_their_own_answers(
    served: Served, base: Path, adapters: dict[str, Path]
) -> None:
    names = [BASE, "acme.support@1", "acme.support@2"]
    prompts = [[6 + number % 7, 20 + number % 5, 40] for number in range(200)]
    models = {name: plain(base, adapters.get(name)) for name in names}
    expected: dict[tuple[object, ...], list[int]] = {}
    with ThreadPoolExecutor(200) as pool:
        answers = list(
            pool.map(lambda each: served.client.complete(names[each % 3], prompts[each], GREEDY), range(200))
        )
    for number, answer in enumerate(answers):
        asked = (names[number % 3], *prompts[number])
        if asked not in expected:
            expected[asked] = alone(models[names[number % 3]], prompts[number], 12)[0]
        assert [token.id for token in answer.tokens] == expected[asked]


def test_more_clients_than_may_wait_are_told_when_to_come_again(base: Path) -> None:
    served = Served(make_engine(base, max_rows=1, max_waiting=2))
    try:
        with ThreadPoolExecutor(20) as pool:
            asked = [pool.submit(served.client.complete, BASE, [7, 8, 9], Sampling(max_tokens=100)) for _ in range(20)]
            errors = [each.exception() for each in asked]
        busy = [error for error in errors if error is not None]
        assert busy
        assert len(busy) < 20
        assert all(isinstance(error, ServerBusy) and error.retry_s == 1 for error in busy)
    finally:
        served.close()


def test_metrics_carry_vllms_names(served: Served) -> None:
    served.client.complete(BASE, [7, 8, 9], GREEDY)
    text = httpx.get(f"{served.url}/metrics", headers={"authorization": f"Bearer {KEY}"}, trust_env=False).text
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(found["vllm:generation_tokens_total"]) >= 12
    assert {"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:prompt_tokens_total"} <= set(found)
