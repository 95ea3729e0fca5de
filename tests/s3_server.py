"""A real S3 server over HTTP (moto) in a process of its own, for tests."""

import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import pytest

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@contextmanager
def s3_server() -> Iterator[str]:
    """The endpoint of a fresh, empty server."""
    process = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        # Said when it listens; nothing if it ended.
        port = int(process.stdout.readline())
        yield f"http://127.0.0.1:{port}"
    finally:
        # Nothing of it is worth keeping, and whoever started the tests may have had SIGTERM ignored.
        process.kill()
        process.wait()


def use_bucket(monkeypatch: pytest.MonkeyPatch, endpoint: str, bucket: str) -> str:
    """Create ``bucket`` and point this process and its children at the server; the store URL."""
    for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)
    for proxy in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(proxy, raising=False)
    boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket=bucket)
    return f"s3://{bucket}/root"


def serve() -> None:
    """moto, one write at a time: it looks whether an object is there and then makes it, which S3 does in one step."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    moto, writing = DomainDispatcherApplication(create_backend_app), threading.Lock()

    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return moto(environ, start_response)
        with writing:
            return moto(environ, start_response)

    server = make_server("127.0.0.1", 0, application, threaded=True)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve()
