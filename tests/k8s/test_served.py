"""The API as its manifest starts it: with the pod's command and settings, on a real PostgreSQL and an S3 server."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ft_assets import api
from tests.e2e.dagster_server import free_port, tail, wait_for
from tests.faults import HttpFaults, TcpCuts
from tests.k8s.test_api import OBJECTS, container_of
from tests.k8s.test_instance import bucket as bucket
from tests.k8s.test_instance import database as database
from tests.k8s.test_instance import instance_of
from tests.k8s.test_instance import postgres as postgres

pytestmark = pytest.mark.e2e
# Nothing here is about speed.
PATIENCE_S = 600.0


@pytest.fixture
def environment(
    tmp_path: Path, database: TcpCuts, bucket: tuple[HttpFaults, str], monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """What the pod's container has, where only addresses, folders and Secrets are other ones."""
    container, settings = container_of("ft-api"), tmp_path / "etc"
    settings.mkdir()
    for name, text in OBJECTS["ConfigMap", "ft-settings"]["data"].items():
        (settings / name).write_text(text)
    found: dict[str, str] = {}
    for source in container["envFrom"]:
        found |= OBJECTS["ConfigMap", source["configMapRef"]["name"]]["data"] if "configMapRef" in source else {}
    found |= {each["name"]: each["value"] for each in container["env"] if "value" in each}
    folders = {"/etc/ft": str(settings), "/tmp": str(tmp_path)}
    found = {name: re.sub("^(/etc/ft|/tmp)", lambda at: folders[at[0]], value) for name, value in found.items()}
    monkeypatch.setenv("DAGSTER_PG_PASSWORD", "unused")
    with instance_of(tmp_path / "home", database, bucket):
        found["DAGSTER_HOME"] = str(tmp_path / "home")
    # Of the bucket fixture: where S3 is, and with which credentials.
    outside = {name: value for name, value in os.environ.items() if name.startswith("AWS_") or name == "PATH"}
    secret = {
        "FT_ACCESS_DB": f"postgresql://postgres@127.0.0.1:{database.port}/postgres",
        "DAGSTER_PG_PASSWORD": "none",
    }
    return {**found, **outside, **secret, "FT_STORE": bucket[1]}


@pytest.fixture
def server(tmp_path: Path, environment: dict[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The running server, and its URL."""
    port, folder = free_port(), tmp_path / "app"
    folder.mkdir()
    said = {"0.0.0.0": "127.0.0.1", "8000": str(port), "$(INGRESS_NETWORK)": environment["INGRESS_NETWORK"]}
    _, *arguments = (said.get(word, word) for word in container_of("ft-api")["command"])
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / "ft"), *arguments], cwd=folder, env=environment, stdout=log, stderr=log
        )
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def test_a_pod_is_ready_while_its_database_and_store_answer_and_ends_when_it_is_told(
    tmp_path: Path,
    server: tuple[subprocess.Popen[bytes], str],
    environment: dict[str, str],
    postgres: Any,
    database: TcpCuts,
) -> None:
    process, url = server

    def answer(path: str, **headers: str) -> tuple[int, Any] | None:
        try:
            found = httpx.get(url + path, headers=headers, timeout=30, trust_env=False)
        except httpx.TransportError:
            return None
        return found.status_code, found.text if path == "/healthz" else found.json()

    def ready() -> Callable[[], bool]:
        return lambda: answer("/readyz") == (200, {"ready": True, "missing": []})

    try:
        wait_for(ready(), PATIENCE_S, "the API", every_s=0.2)
    except AssertionError as error:
        raise AssertionError(tail(tmp_path / "log")) from error
    with_key = api.open_access(environment["FT_ACCESS_DB"])
    _, key = api.create_key("acme", name="first", access=with_key, actor="root")
    with_key.close()
    status, models = answer("/v1/models", authorization=f"Bearer {key}") or (0, {})
    assert (status, [each["id"] for each in models["data"]]) == (200, ["llama-3.1-8b"])
    postgres.stop()
    database.sever()
    wait_for(
        lambda: answer("/readyz") == (503, {"ready": False, "missing": ["database"]}),
        PATIENCE_S,
        "the database's absence",
    )
    assert answer("/healthz") == (200, "ok\n")
    postgres.ensure_postgres_running()
    wait_for(ready(), PATIENCE_S, "the database")
    # All that a pod writes goes to /tmp: its own folder is read-only there.
    assert list((tmp_path / "app").iterdir()) == []
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
