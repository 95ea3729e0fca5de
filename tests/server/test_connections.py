"""Limits of connections, on a transport and with timers that a test has in its hands."""

import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest
import uvicorn
from fastapi import FastAPI
from uvicorn.server import ServerState

from ft_assets.server.connections import MOST_HEAD, LimitedConnection
from ft_assets.server.serving import server_of

ROOT = Path(__file__).parents[2]
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
HEAD, POST = GET[:-2], b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
_PIECE = 16 << 10


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written, self.closed = b"", False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class Timer:
    def __init__(self, number: int, seconds: float, call: Callable[[], None]) -> None:
        self.number, self.seconds, self.call, self.cancelled = number, seconds, call, False

    def when(self) -> float:
        return self.number

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """An event loop in which no request gets any further, and time passes when a test says so."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(len(self.timers), seconds, call))
        return self.timers[-1]

    def create_task(self, work: Coroutine[Any, Any, None]) -> Any:
        work.close()
        return Wire()

    def pass_time(self) -> None:
        for each in self.timers:
            if not each.cancelled:
                each.call()


class Server:
    """Connections of one server."""

    def __init__(self, kind: type[LimitedConnection] = LimitedConnection) -> None:
        self.loop, self._kind, self._state = Loop(), kind, ServerState()
        self._config = uvicorn.Config(lambda *_: None, lifespan="off", log_level="critical")

    def connected(self) -> tuple[LimitedConnection, Wire]:
        wire, made = Wire(), self._kind(self._config, self._state, {}, cast(Any, self.loop))
        made.connection_made(cast(Any, wire))
        return made, wire


ENDLESS: list[tuple[bytes, bytes]] = [
    (b"GET /", b"a"),
    (b"GET / HTTP/1.1\r\n", b"a"),
    (HEAD + b"A: ", b"a"),
    (HEAD, b"A: a\r\n"),
    (b"", b"\r\n"),
    (GET, b"\r\n"),
    (CHUNKED + b"1\r\na\r\n1;", b"a"),
    (CHUNKED + b"1\r\na\r\n0\r\nA: ", b"a"),
    (CHUNKED + b"1\r\na\r\n0\r\n", b"A: a\r\n"),
]


@pytest.mark.parametrize(("begin", "more"), ENDLESS)
def test_what_never_becomes_a_body_ends_its_connection(begin: bytes, more: bytes) -> None:
    connection, wire = Server().connected()
    connection.data_received(begin)
    for _ in range(MOST_HEAD // _PIECE + 2):
        assert not wire.closed
        connection.data_received(more * (_PIECE // len(more)))
        if wire.closed:
            break
    assert wire.closed
    assert wire.written.startswith(b"HTTP/1.1 400 ")


def test_a_long_head_in_one_piece_is_refused_and_bodies_have_no_limit_here() -> None:
    connection, wire = Server().connected()
    connection.data_received(HEAD + b"A: " + b"a" * MOST_HEAD + b"\r\n\r\n")
    assert (wire.closed, b"over 64 KiB" in wire.written, connection.cycle) == (True, True, None)
    for begin, piece in ((POST, b"a" * _PIECE), (CHUNKED, b"1\r\na\r\n" * 3000)):
        connection, wire = Server().connected()
        connection.data_received(begin)
        for _ in range(20):
            connection.data_received(piece)
        assert not wire.closed


def _answered(connection: LimitedConnection) -> None:
    connection.cycle.response_complete = True
    connection.on_response_complete()


SLOW: list[tuple[list[bytes | None], bool]] = [
    ([], True),
    ([b"GE"], True),
    ([b"\r\n", b"\r\n"], True),
    ([HEAD], True),
    ([GET], False),
    ([HEAD, b"\r\n"], False),
    ([POST, b"a"], False),
    ([GET, None], True),
    ([GET, None, b"G"], True),
    ([GET, None, b"\r\n"], True),
    ([GET, None, GET], False),
    # The rest of a body that nobody will read.
    ([POST, None, b"a"], True),
]


@pytest.mark.parametrize(("pieces", "closed"), SLOW)
def test_a_connection_without_a_request_under_way_ends_when_its_time_is_up(
    pieces: list[bytes | None], closed: bool
) -> None:
    """None stands for the answer to what came before."""
    server = Server()
    connection, wire = server.connected()
    for piece in pieces:
        if piece is None:
            _answered(connection)
        else:
            connection.data_received(piece)
    # Time that some bytes bought does not begin anew with each of them.
    assert len([each for each in server.loop.timers if not each.cancelled]) == closed
    server.loop.pass_time()
    assert wire.closed == closed


def test_beyond_the_most_connections_the_oldest_that_is_idle_goes_or_else_the_new_one() -> None:
    class Few(LimitedConnection):
        most = 2

    server = Server(Few)
    (busy, first), (_, second) = server.connected(), server.connected()
    busy.data_received(GET)
    third = server.connected()
    assert [each.closed for each in (first, second, third[1])] == [False, True, False]
    third[0].data_received(GET)
    _, fourth = server.connected()
    assert [each.closed for each in (first, third[1], fourth)] == [False, False, True]


def test_the_server_has_these_limits(served: FastAPI) -> None:
    assert server_of(served, host="127.0.0.1", port=0).config.http is LimitedConnection
    assert 1 <= LimitedConnection.most <= 2000


def test_whatever_listens_for_browsers_and_clients_has_these_limits() -> None:
    """`ft ui` had two servers of its own without them. The other is an embedded engine, for this machine's server."""
    starts = re.compile(r"uvicorn\.(Config|run)\(|[^.]Server\(config")
    found = {str(path.relative_to(ROOT)) for path in ROOT.glob("ft_*/**/*.py") if starts.search(path.read_text())}
    assert found == {"ft_assets/server/serving.py", "ft_assets/workers/serving/main.py"}
