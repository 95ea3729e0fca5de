"""The door to an engine's figures leads to nothing else of it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest

from ft_assets.vllm_metrics import make_door


@contextmanager
def running(server: HTTPServer) -> Iterator[str]:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def engine(asked: list[str]) -> Iterator[str]:
    class Engine(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(b"vllm:num_requests_running 3\n")

        do_POST = do_DELETE = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with running(HTTPServer(("127.0.0.1", 0), Engine)) as url:
        yield url


def test_only_the_figures_are_told(engine: str, asked: list[str]) -> None:
    with running(make_door(engine, 0)) as door:
        found = httpx.get(f"{door}/metrics", trust_env=False)
        assert (found.status_code, found.text) == (200, "vllm:num_requests_running 3\n")
        assert found.headers["content-type"].startswith("text/plain; version=0.0.4")
        for method, path in (
            ("GET", "/v1/models"),
            ("GET", "/metrics/../v1/models"),
            ("GET", "/metrics?x=1"),
            ("POST", "/metrics"),
            ("POST", "/adapters"),
            ("DELETE", "/adapters/name"),
        ):
            assert httpx.request(method, door + path, trust_env=False).status_code in (404, 501), path
    assert asked == ["/metrics"]


def test_an_engine_that_does_not_answer_is_told_of(engine: str) -> None:
    with running(make_door("http://127.0.0.1:9", 0)) as door:
        assert httpx.get(f"{door}/metrics", trust_env=False).status_code == 502
