"""``python -m tests.resources.serving.fake_engine``: an embedded server that answers at once, knows no model, and ends
where the base's folder is not there or its config is empty."""

import argparse
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        ours = self.headers["Authorization"] == f"Bearer {os.environ['FT_SERVING_KEY']}"
        self.send_response(200 if self.path == "/health" and ours else 401)
        self.end_headers()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--base", type=Path)
    parser.add_argument("--port", type=int)
    asked, _ = parser.parse_known_args()
    if (asked.base / "config.json").read_bytes() == b"{}":
        raise SystemExit("BadBase: there is no architecture in it")
    HTTPServer(("127.0.0.1", asked.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
