"""``python -m ft_assets.vllm_metrics ENGINE PORT``: serve the figures of the vLLM at ENGINE, and nothing else of it.

vLLM serves its figures at the port where it takes requests, some without a key. Who may see the figures need not reach
those. It runs in vLLM's environment.
"""

import sys
import urllib.error
import urllib.request
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_PATH = "/metrics"
_ANSWER_S = 10.0


def make_door(engine: str, port: int) -> ThreadingHTTPServer:
    """A server at ``port`` (0: any) that answers ``GET /metrics`` with what ``engine`` (``http://HOST:PORT``) says."""

    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != _PATH:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            try:
                with urllib.request.urlopen(engine + _PATH, timeout=_ANSWER_S) as answer:
                    data, kind = answer.read(), answer.headers["content-type"]
            except (urllib.error.URLError, TimeoutError, OSError):
                self.send_error(HTTPStatus.BAD_GATEWAY, "The engine does not answer")
                return
            self.send_response(HTTPStatus.OK)
            self.send_header("content-type", kind or "text/plain")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    return ThreadingHTTPServer(("", port), Door)


if __name__ == "__main__":
    make_door(sys.argv[1], int(sys.argv[2])).serve_forever()
