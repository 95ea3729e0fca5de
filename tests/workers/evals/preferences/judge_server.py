"""A judge over real HTTP that judges as a test says."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_FENCE = re.compile(r"==[0-9a-f]{24}==")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the server answers: a judgement's text, or anything at all."""

    text: str = "VERDICT: TIE"
    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    finish_reason: str = "stop"
    # No answer for as long as the server is there.
    silent: bool = False
    # Bytes that come one by one with a pause between them.
    drip_s: float = 0.0
    # Closes the connection half-way through the body.
    dies: bool = False

    @property
    def data(self) -> bytes:
        if self.body is not None:
            return self.body
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": self.text},
            "finish_reason": self.finish_reason,
        }
        return json.dumps({"id": "x", "choices": [choice]}).encode()


@dataclass
class JudgeServer:
    """``asked`` are the bodies of all requests, in the order in which they came; ``headers`` theirs."""

    url: str
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def messages(self) -> list[str]:
        return [body["messages"][0]["content"] for body in self.asked]


def answers_in(message: str) -> tuple[str, str]:
    """Answers A and B in a judge's prompt."""
    fence = _FENCE.search(message)
    assert fence is not None
    parts = message.split(f"\n{fence[0]} ")
    found = {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}
    return found["answer A"], found["answer B"]


def prefer(better: Callable[[str], bool]) -> Callable[[str], Answer]:
    """A fair judge: the ``better`` answer wins, else it is a tie."""

    def judge(message: str) -> Answer:
        first, second = map(better, answers_in(message))
        return Answer(text=f"Because.\nVERDICT: {'TIE' if first == second else 'A' if first else 'B'}")

    return judge


@contextmanager
def judge_server(judge: Callable[[str], Answer]) -> Iterator[JudgeServer]:
    """A server on this machine; ``judge`` is given each message, in several threads."""
    lock, gone = threading.Lock(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                server.asked.append(body)
                server.headers.append({name.lower(): value for name, value in self.headers.items()})
            answer = judge(body["messages"][0]["content"])
            if answer.silent:
                gone.wait()
                return
            data = answer.data
            try:
                self.send_response(answer.status)
                for name, value in {"Content-Length": str(len(data)), **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if answer.dies:
                    self.wfile.write(data[: len(data) // 2])
                    self.close_connection = True
                elif answer.drip_s:
                    for byte in data:
                        self.wfile.write(bytes([byte]))
                        self.wfile.flush()
                        time.sleep(answer.drip_s)
                else:
                    self.wfile.write(data)
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = JudgeServer(url=f"http://127.0.0.1:{httpd.server_address[1]}/v1")
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        gone.set()
        httpd.shutdown()
        httpd.server_close()
