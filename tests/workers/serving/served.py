"""An engine behind a socket of this machine."""

import socket
import threading

import httpx
import uvicorn

from ft_assets.workers.serving.app import make_app
from ft_assets.workers.serving.engine import Engine
from ft_resources.serving.http_server import HttpServer

KEY = "a-key-of-the-tests"


class Served:
    """``client`` asks the engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._server = uvicorn.Server(uvicorn.Config(make_app(engine, KEY), log_level="warning"))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))
        self._thread.start()
        self.client = HttpServer(self.url, KEY)

    def close(self) -> None:
        self.client.close()
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()
        self.engine.close()

    def post(self, **body: object) -> httpx.Response:
        headers = {"authorization": f"Bearer {KEY}"}
        return httpx.post(f"{self.url}/v1/completions", json=body, headers=headers, trust_env=False)
