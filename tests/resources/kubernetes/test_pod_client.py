"""A pod's own login, at a server with a certificate of the cluster's authority."""

import socket
import ssl
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from ft_resources.errors import ClusterUnavailable
from ft_resources.kubernetes.api import Api
from ft_resources.kubernetes.pod_client import PodClient
from tests.control.notices.servers import Hook, make_certificate, webhook


def account(folder: Path, authority: Path, token: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "ca.crt").write_bytes(authority.read_bytes())
    (folder / "token").write_text(token + "\n")
    return folder


def in_pod(monkeypatch: pytest.MonkeyPatch, hook: Hook) -> None:
    host, _, port = hook.url.removeprefix("https://").partition("/")[0].partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)


def test_each_request_has_the_token_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path)
    with webhook(certificate=certificate) as hook:
        in_pod(monkeypatch, hook)
        files = account(tmp_path / "account", certificate[0], "first")
        api = Api(client=PodClient.here(files))
        api.create("/x", {"kind": "Job"})
        account(files, certificate[0], "second")
        api.create("/x", {"kind": "Job"})
        assert [headers["Authorization"] for headers, _ in hook.got] == ["Bearer first", "Bearer second"]


def test_a_server_of_another_authority_is_told_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    with webhook(certificate=make_certificate(tmp_path)) as hook:
        in_pod(monkeypatch, hook)
        files = account(tmp_path / "account", make_certificate(tmp_path / "other")[0], "secret")
        with pytest.raises(ClusterUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            Api(client=PodClient.here(files), patience_s=0.0).create("/x", {"kind": "Job"})
        assert hook.got == []


def test_a_process_that_is_no_pod_has_no_such_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert PodClient.here(tmp_path) is None
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert PodClient.here(tmp_path) is None, "pods without an account's token have nothing to say to the API"
    client = PodClient.here(account(tmp_path, make_certificate(tmp_path)[0], "t"))
    assert client is not None
    assert client.configuration.host == "https://[fd00::1]:443"


def test_a_pod_does_not_load_the_official_client() -> None:
    """Its models are a third of the memory of each run that waits."""
    code = """
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from ft_resources.kubernetes.api import Api
from ft_resources.kubernetes.pod_client import PodClient
PodClient.here = classmethod(lambda cls: cls("https://10.0.0.1:443", Path("/nowhere")))
Api.connect()
sys.exit("kubernetes" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3]).returncode == 0


def test_a_watch_over_tls_is_ended_while_it_waits_for_news(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    event = b'{"type": "BOOKMARK"}\n'
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with context.wrap_socket(listener.accept()[0], server_side=True) as connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                connection.sendall(f"{len(event):x}\r\n".encode() + event + b"\r\n")
                # Nothing more, until the client is gone.
                with suppress(OSError):
                    connection.recv(1)

        threading.Thread(target=serve, daemon=True).start()
        client = PodClient(f"https://127.0.0.1:{listener.getsockname()[1]}", account(tmp_path, certificate[0], "t"))
        events = Api(client=client).watch("/x", "1", {})
        told = iter(events)
        assert next(told) == {"type": "BOOKMARK"}
        threading.Timer(0.3, events.end).start()
        with pytest.raises(ConnectionError):
            next(told)
        events.close()
