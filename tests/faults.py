"""Proxies that fail on purpose, between us and a server: HTTP request by request, TCP connection by connection."""

import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlparse

_SLOW_S = 0.05
# Of a connection to the next hop, which a proxy must not pass on (RFC 9110, 7.6.1), and what is written anew.
_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}


class Fault(Enum):
    """What happens to one request. After ``LOST`` and ``ERROR_AFTER`` the server has done what it was asked."""

    RESET = "connection reset before the server saw the request"
    LOST = "connection reset in place of the server's answer"
    ERROR = "503 before the server saw the request"
    ERROR_AFTER = "503 in place of the server's answer"
    CUT = "connection reset in the middle of the answer's body"
    SLOW = "answered late"


Refusal = tuple[int, str]
"""A status and a code of S3, answered before the server saw the request."""
# The method, the path with query, and how many requests came before; what to do to this one.
FaultPlan = Callable[[str, str, int], Fault | Refusal | None]


class HttpFaults:
    """Passes requests on to ``upstream``; ``plan`` may be exchanged at any time, ``struck`` says what was done. A page
    of a listing has ``page`` objects, or with 0 as many as the client and the server agree on. Headers whose names are
    in ``dropped``, in lower case, do not reach the server."""

    def __init__(self, upstream: str) -> None:
        self.plan: FaultPlan = lambda method, path, number: None
        self.struck: list[tuple[Fault | Refusal, str, str]] = []
        self.page = 0
        self.dropped = {"connection"}
        self.seen = 0
        self._lock = threading.Lock()
        host, port = urlparse(upstream).hostname, urlparse(upstream).port
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                fault = proxy._fault(self.command, self.path)
                if fault is Fault.RESET:
                    return self._reset()
                if fault is Fault.ERROR:
                    return self._refused(503, "")
                if isinstance(fault, tuple):
                    return self._refused(*fault)
                if fault is Fault.SLOW:
                    time.sleep(_SLOW_S)
                server = HTTPConnection(str(host), port)
                headers = {name: value for name, value in self.headers.items() if name.lower() not in proxy.dropped}
                paged = f"&max-keys={proxy.page}" if proxy.page and "list-type=2" in self.path else ""
                server.request(self.command, self.path + paged, body=body or None, headers=headers)
                answer = server.getresponse()
                data = answer.read()
                server.close()
                if fault is Fault.LOST:
                    return self._reset()
                if fault is Fault.ERROR_AFTER:
                    return self._refused(503, "")
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in _HOP:
                        self.send_header(name, value)
                length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
                if length and answer.status != 204:
                    self.send_header("Content-Length", length)
                self.end_headers()
                if fault is Fault.CUT:
                    self.wfile.write(data[: len(data) // 2])
                    self.wfile.flush()
                    return self._reset()
                self.wfile.write(data)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

            def _refused(self, status: int, code: str) -> None:
                body = f"<Error><Code>{code}</Code></Error>".encode() if code and self.command != "HEAD" else b""
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def _reset(self) -> None:
                _reset(self.connection)
                self.close_connection = True

            def log_message(self, *_: object) -> None:
                return

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: object, client_address: object) -> None:
                # Clients that are killed leave broken connections.
                return

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _fault(self, method: str, path: str) -> Fault | Refusal | None:
        with self._lock:
            self.seen += 1
            fault = self.plan(method, path, self.seen - 1)
            if fault:
                self.struck.append((fault, method, path))
            return fault


@contextmanager
def http_faults(upstream: str) -> Iterator[HttpFaults]:
    """A proxy before ``upstream``, that fails at nothing until it is given a plan."""
    proxy = HttpFaults(upstream)
    threading.Thread(target=proxy._server.serve_forever, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy._server.shutdown()
        proxy._server.server_close()


def some(rate: float, seed: int = 0, faults: tuple[Fault, ...] = tuple(Fault)) -> FaultPlan:
    """Each request fails with probability ``rate``, in one of these ways."""
    chance = random.Random(seed)
    return lambda method, path, number: chance.choice(faults) if chance.random() < rate else None


def first(fault: Fault | Refusal, method: str, part: str) -> FaultPlan:
    """The first request of ``method`` whose path has ``part`` fails; all others pass."""
    left = [fault]
    return lambda asked, path, number: left.pop() if left and asked == method and part in path else None


class TcpCuts:
    """Passes connections on to a Unix socket; ``sever`` resets all that are open."""

    def __init__(self, upstream: Path) -> None:
        self._upstream = upstream
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]

    def serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(str(self._upstream))
            except OSError:
                _reset(client)
                server.close()
                continue
            self._pairs.add((client, server))
            threading.Thread(target=self._carry, args=(client, server), daemon=True).start()

    def sever(self) -> int:
        """Reset every open connection; how many there were."""
        pairs, self._pairs = self._pairs, set()
        for client, server in pairs:
            _reset(client)
            _reset(server)
        return len(pairs)

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        """Pass on what comes from both sides until both have ended."""
        answers = threading.Thread(target=_pump, args=(server, client), daemon=True)
        answers.start()
        _pump(client, server)
        answers.join()
        self._pairs.discard((client, server))
        # Whoever opens a connection for each question would otherwise use up all that a process may have.
        client.close()
        server.close()

    def close(self) -> None:
        # Closing alone does not wake a thread that is in accept.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.sever()


@contextmanager
def tcp_cuts(upstream: Path) -> Iterator[TcpCuts]:
    proxy = TcpCuts(upstream)
    threading.Thread(target=proxy.serve, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    # One whose other side broke off is told too, or it would be waited for.
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _reset(connection: socket.socket) -> None:
    """Close with RST: the other side learns that it broke, and not that it ended."""
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RD)
    with suppress(OSError):
        connection.close()
