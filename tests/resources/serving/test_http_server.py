"""The client of servers of models, beside a server that says what vLLM and broken ones say."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ft_resources.errors import NotFound, UserError
from ft_resources.serving.async_servers import AsyncServers
from ft_resources.serving.errors import BadAdapter, BadRequest, NameTaken, ServerBusy, ServerUnavailable
from ft_resources.serving.fleet import Endpoint
from ft_resources.serving.http_server import HttpServer
from ft_resources.serving.server import Sampling, Token

SAMPLING = Sampling(max_tokens=2, logprobs=1, stop_token_ids=(3,))
CHOICE = {
    "text": "ab",
    "finish_reason": "length",
    "token_ids": [5, 6],
    "logprobs": {
        "tokens": ["token_id:5", "token_id:6"],
        "token_logprobs": [-0.5, -2.0],
        "top_logprobs": [{"token_id:5": -0.5}, {"token_id:7": -0.1, "token_id:6": -2.0}],
    },
}


class Fake:
    """Answers every request with what the test says, and keeps what was asked."""

    def __init__(self) -> None:
        self.status, self.body, self.headers = 200, b"", {}
        self.asked: list[tuple[str, Any]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                sent = self.rfile.read(int(self.headers.get("content-length", 0)))
                fake.asked.append((self.path, json.loads(sent) if sent else None))
                self.send_response(fake.status)
                for name, value in fake.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(fake.body)

            do_GET = do_POST

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def says(self, body: object, status: int = 200, **headers: str) -> None:
        self.body = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.status, self.headers = status, headers

    def refuses(self, status: int, message: str = "no", **headers: str) -> None:
        self.says({"error": {"message": message, "type": "BadRequestError", "param": None, "code": status}}, status)
        self.headers = headers


@pytest.fixture
def fake() -> Iterator[Fake]:
    made = Fake()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.fixture
def client(fake: Fake) -> Iterator[HttpServer]:
    made = HttpServer(fake.url, "key")
    yield made
    made.close()


def events(*parts: object) -> str:
    return "".join(f"data: {part if isinstance(part, str) else json.dumps(part)}\n\n" for part in parts)


def test_an_answer_is_read_by_token_ids(fake: Fake, client: HttpServer) -> None:
    fake.says({"choices": [CHOICE]})
    piece = client.complete("name", [1, 2], SAMPLING)
    assert piece.tokens == (
        Token(id=5, logprob=-0.5, top={5: -0.5}),
        Token(id=6, logprob=-2.0, top={7: -0.1, 6: -2.0}),
    )
    assert (piece.text, piece.finish_reason) == ("ab", "length")
    path, body = fake.asked[0]
    assert path == "/v1/completions"
    assert body == {
        "model": "name",
        "prompt": [1, 2],
        "max_tokens": 2,
        "temperature": 0.0,
        "top_p": 1.0,
        "stop_token_ids": [3],
        "logprobs": 1,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
    }


def test_a_score_is_of_the_continuation_alone(fake: Fake, client: HttpServer) -> None:
    places = [None, {"2": {"logprob": -9.0}}, {"8": {"logprob": -0.1}, "9": {"logprob": -3.0, "rank": 4}}]
    fake.says({"choices": [{**CHOICE, "prompt_logprobs": places}]})
    assert client.score("name", [1, 2], [9], top=1) == [Token(id=9, logprob=-3.0, top={8: -0.1})]
    assert fake.asked[0][1]["prompt"] == [1, 2, 9]
    with pytest.raises(BadRequest):
        client.score("name", [], [9])


def test_an_adapter_that_vllm_has_is_loaded(fake: Fake, client: HttpServer) -> None:
    fake.refuses(400, "The lora adapter 'name' has already been loaded.")
    client.load("name", Path("/adapters/name"))
    assert fake.asked == [("/v1/load_lora_adapter", {"lora_name": "name", "lora_path": "/adapters/name"})]
    fake.refuses(400, "no adapter_config.json")
    with pytest.raises(BadAdapter, match="adapter_config"):
        client.load("name", Path("/adapters/name"))


@pytest.mark.parametrize(
    ("status", "headers", "error"),
    [
        (400, {}, BadRequest),
        (404, {}, NotFound),
        (409, {}, NameTaken),
        (429, {"retry-after": "2"}, ServerBusy),
        (503, {"retry-after": "2"}, ServerBusy),
        (503, {}, ServerUnavailable),
        (500, {}, ServerUnavailable),
    ],
)
def test_refusals_are_of_the_error_family(
    fake: Fake, client: HttpServer, status: int, headers: dict[str, str], error: type[UserError]
) -> None:
    fake.refuses(status, "the reason", **headers)
    for act in (lambda: client.complete("name", [1], SAMPLING), lambda: next(client.stream("name", [1], SAMPLING))):
        with pytest.raises(error, match="the reason") as found:
            act()
        assert found.value.remedy
        assert getattr(found.value, "retry_s", 2) == 2


@pytest.mark.parametrize("body", ["<html>", {}, {"choices": []}, {"choices": [{"text": "a"}]}])
def test_an_answer_in_no_dialect_is_no_answer(fake: Fake, client: HttpServer, body: object) -> None:
    fake.says(body)
    with pytest.raises(ServerUnavailable, match="cannot be read"):
        client.complete("name", [1], SAMPLING)


def test_a_stream_that_ends_early_is_told_of(fake: Fake, client: HttpServer) -> None:
    piece = {"choices": [{"text": "a", "finish_reason": None, "token_ids": [5]}]}
    for parts, message in (
        ((piece,), "middle of an answer"),
        ((piece, {"error": {"message": "out of memory"}}), "out of memory"),
        ((piece, "{"), "cannot be read"),
    ):
        fake.says(events(*parts))
        stream = client.stream("name", [1], SAMPLING)
        assert next(stream).text == "a"
        with pytest.raises(ServerUnavailable, match=message):
            next(stream)
    fake.says(events(piece, {"choices": [], "usage": {}}, "[DONE]"))
    assert [each.text for each in client.stream("name", [1], SAMPLING)] == ["a"]


def test_letters_that_python_takes_for_ends_of_lines_are_text(fake: Fake, client: HttpServer) -> None:
    text = "a\u2028b\u0085c\x1cd\u2029"
    # As vLLM sends it: not escaped.
    part = json.dumps({"choices": [{"text": text, "finish_reason": "stop", "token_ids": [5]}]}, ensure_ascii=False)
    fake.says(events(part, "[DONE]").replace("\n", "\r\n"))
    assert [each.text for each in client.stream("name", [1], SAMPLING)] == [text]

    async def asked() -> list[str]:
        servers = AsyncServers()
        end = Endpoint(name="one", base="b", model="base", url=fake.url, key="key")
        try:
            return [each.text async for each in servers.stream(end, "name", [1], SAMPLING)]
        finally:
            await servers.close()

    assert asyncio.run(asked()) == [text]


def test_a_server_that_is_not_there_is_unavailable() -> None:
    fake = Fake()
    fake.server.server_close()
    client = HttpServer(fake.url, "key")
    assert not client.healthy()
    with pytest.raises(ServerUnavailable, match=fake.url):
        client.models()
