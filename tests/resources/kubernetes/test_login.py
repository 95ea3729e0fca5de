"""A pod's own login, at a server with a certificate of the cluster's authority."""

import json
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from kubernetes.config import incluster_config

from ft_resources.errors import ClusterUnavailable
from ft_resources.kubernetes.api import Api, ApiRefusal
from tests.control.notices.servers import make_certificate, webhook


@pytest.fixture(autouse=True)
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is a pod, whose account's files are those of the folder."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    (tmp_path / "token").write_text("t")


def trusting(authority: Path, monkeypatch: pytest.MonkeyPatch, port: int) -> Api:
    Path(incluster_config.SERVICE_CERT_FILENAME).write_bytes(authority.read_bytes())
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(port))
    return Api.connect()


def port_of(url: str) -> int:
    return int(url.removeprefix("https://").partition("/")[0].partition(":")[2])


def test_a_pod_logs_in_by_its_accounts_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path)
    with webhook(certificate=certificate) as hook:
        trusting(certificate[0], monkeypatch, port_of(hook.url)).create("/x", {"kind": "Job"})
        assert [headers["authorization"] for headers, _ in hook.got] == ["bearer t"]


def test_a_server_of_another_authority_is_told_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    other = make_certificate(tmp_path / "other")[0]
    with webhook(certificate=make_certificate(tmp_path)) as hook:
        api = trusting(other, monkeypatch, port_of(hook.url))
        api.patience_s = 0.0
        with pytest.raises(ClusterUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            api.create("/x", {"kind": "Job"})
        assert hook.got == []


def test_a_process_that_is_no_pod_and_has_no_kubeconfig_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(ClusterUnavailable, match="no cluster is configured"):
        Api.connect()


@pytest.mark.parametrize("told", [b'{"type": "BOOKMARK", "object": {}}', b"<html>", b"[]", b'{"type": "ADDED"}'])
def test_a_watch_over_tls_is_ended_while_it_waits_for_news_and_by_what_is_no_event(
    told: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener, context, told + b"\n"), daemon=True).start()
        events = trusting(certificate[0], monkeypatch, listener.getsockname()[1]).watch("/x", "1", {})
        heard = iter(events)
        if b"BOOKMARK" in told:
            assert next(heard)["type"] == "BOOKMARK"
            threading.Timer(0.3, events.end).start()
        with pytest.raises(ConnectionError):
            next(heard)
        events.close()


def test_an_error_that_a_watch_tells_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    told = json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener, context, told), daemon=True).start()
        events = trusting(certificate[0], monkeypatch, listener.getsockname()[1]).watch("/x", "1", {})
        with pytest.raises(ApiRefusal, match="too old resource version") as caught:
            next(iter(events))
        assert caught.value.code == 410
        events.close()


def serve(listener: socket.socket, context: ssl.SSLContext, event: bytes) -> None:
    """A watch that tells one event, and nothing more until the client is gone."""
    with context.wrap_socket(listener.accept()[0], server_side=True) as connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.sendall(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        with suppress(OSError):
            connection.recv(1)
