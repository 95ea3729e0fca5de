"""The embedded server as its users start it."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ft_resources.serving.errors import ServerUnavailable
from ft_resources.serving.http_server import HttpServer
from ft_resources.serving.server import Sampling
from tests.warm_workers.fixture import warm as warm

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("warm")]
MAIN = (sys.executable, "-m", "ft_assets.workers.serving.main")


def test_a_server_killed_in_an_answer_is_told_of_as_such(base: Path, adapters: dict[str, Path]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    asked = (*MAIN, "--base", str(base), "--port", str(port), "--served-model-name", "base", "--dtype", "float32")
    process = subprocess.Popen(asked, env={**os.environ, "FT_SERVING_KEY": "secret"})
    client = HttpServer(f"http://127.0.0.1:{port}", "secret")
    try:
        deadline = time.monotonic() + 600
        while not client.healthy():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        client.load("rs", adapters["rs"])
        stream = client.stream("rs", [7, 8, 9], Sampling(max_tokens=240))
        next(stream)
        process.send_signal(signal.SIGKILL)
        with pytest.raises(ServerUnavailable, match=str(port)):
            list(stream)
        assert not client.healthy()
        with pytest.raises(ServerUnavailable, match=str(port)):
            client.models()
    finally:
        process.kill()
        process.wait()


def test_no_server_starts_without_a_key(base: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "FT_SERVING_KEY"}
    found = subprocess.run(
        (*MAIN, "--base", str(base), "--port", "1"), env=environment, capture_output=True, text=True, check=False
    )
    assert found.returncode != 0
    assert "FT_SERVING_KEY" in found.stderr
