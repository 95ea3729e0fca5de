"""MLflow on a cluster: who reaches it, and that it keeps what the platform mirrors, on PostgreSQL and an S3 server."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from ft_resources.tracking import Mirror
from tests.e2e.dagster_server import free_port, wait_for
from tests.k8s.chart import K8S
from tests.k8s.kustomize import rendered
from tests.k8s.test_api import chosen
from tests.k8s.test_kustomize import by_name
from tests.postgres import own_postgres
from tests.s3_server import s3_server, use_bucket

OBJECTS = by_name(rendered(K8S / "kustomize" / "mlflow"))
POD: dict[str, Any] = OBJECTS["Deployment", "ft-system", "ft-mlflow"]["spec"]["template"]
SERVER, DOOR = POD["spec"]["containers"]
ENVIRONMENT: dict[str, str] = OBJECTS["ConfigMap", "ft-system", "ft-mlflow"]["data"]
# Nothing here is about speed.
PATIENCE_S = 600.0
(HOST,) = OBJECTS["Ingress", "ft-system", "ft-mlflow"]["spec"]["tls"][0]["hosts"]


def test_every_object_is_in_the_platforms_namespace_and_no_pod_has_a_token() -> None:
    assert {namespace for _, namespace, _ in OBJECTS} == {"ft-system"}
    assert POD["spec"]["automountServiceAccountToken"] is False


def test_people_reach_the_door_alone_and_what_tenants_speak_to_reaches_nothing() -> None:
    runs, ingress = OBJECTS["NetworkPolicy", "ft-system", "mlflow"]["spec"]["ingress"]
    (peer,) = runs["from"]
    assert [port["port"] for port in runs["ports"]] == [port["containerPort"] for port in SERVER["ports"]]
    for component, may in (("ft-api", False), ("ft-server", False), ("user-deployments", True)):
        assert chosen(peer["podSelector"], {"component": component}) is may
    (outside,) = ingress["from"]
    assert outside == {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}
    assert [port["port"] for port in ingress["ports"]] == [port["containerPort"] for port in DOOR["ports"]]
    out = OBJECTS["NetworkPolicy", "ft-system", "to-mlflow"]["spec"]
    assert out["podSelector"] == peer["podSelector"]
    (path,) = OBJECTS["Ingress", "ft-system", "ft-mlflow"]["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"]["port"]["name"] == DOOR["ports"][0]["name"]


def test_the_door_asks_for_a_group_and_leads_to_the_server_beside_it() -> None:
    assert f"--upstream=http://127.0.0.1:{SERVER['ports'][0]['containerPort']}" in DOOR["args"]
    assert ENVIRONMENT["OAUTH2_PROXY_ALLOWED_GROUPS"]
    assert ENVIRONMENT["OAUTH2_PROXY_REDIRECT_URL"] == f"https://{HOST}/oauth2/callback"


def test_no_worker_is_killed_for_being_silent() -> None:
    """As uvicorn does with each of several."""
    assert SERVER["command"][SERVER["command"].index("--workers") + 1] == "1"


@pytest.mark.parametrize(("origin", "refused"), [(f"https://{HOST}", False), ("https://evil.example", True)])
def test_its_pages_may_ask_and_those_of_others_may_not(origin: str, refused: bool) -> None:
    """They search by POST, under the name of the door, which the server is not asked by."""
    from mlflow.server.security_utils import should_block_cors_request

    allowed = ENVIRONMENT["MLFLOW_SERVER_CORS_ALLOWED_ORIGINS"].split(",")
    assert should_block_cors_request(origin, "POST", allowed) is refused


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The container's own command, under a port of this machine; the database and bucket are the test's."""
    port = free_port()
    with s3_server() as endpoint, own_postgres() as (_, database):
        use_bucket(monkeypatch, endpoint, "ft-example")
        program, *arguments = [each.replace("5000", str(port)) for each in SERVER["command"]]
        variables = {key: value for key, value in ENVIRONMENT.items() if key.startswith("MLFLOW_")}
        uri = f"postgresql+psycopg2://postgres@127.0.0.1:{database.port}/postgres"
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / program), *arguments],
            env={**os.environ, **variables, "MLFLOW_BACKEND_STORE_URI": uri, "HOME": str(tmp_path)},
            start_new_session=True,
        )
        try:
            wait_for(lambda: _answers(port, process), PATIENCE_S, "MLflow", every_s=0.2)
            yield port
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _answers(port: int, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "the server ended"
    with suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{port}/version").status_code == 200
    return False


@pytest.mark.e2e
def test_what_is_mirrored_is_in_it_and_a_name_that_is_not_its_own_is_refused(server: int) -> None:
    import mlflow

    url = f"http://127.0.0.1:{server}"
    mirror = Mirror(url)
    mirror.run_started("acme/checkpoint/1", name="first", params={"rank": 4}, tags={"ft.asset": "checkpoint"})
    mirror.steps("acme/checkpoint/1", [{"step": 1, "loss": 2.5, "at": 1.7e9}])
    mirror.run_finished("acme/checkpoint/1", "FINISHED")
    assert mirror.flush(PATIENCE_S) == ""
    client = mlflow.MlflowClient(url)
    runs = [run for each in client.search_experiments() for run in client.search_runs([each.experiment_id])]
    assert [(run.info.run_name, run.data.params["rank"], run.data.metrics["loss"]) for run in runs] == [
        ("first", "4", 2.5)
    ]
    known = {"Host": f"ft-mlflow:{server}"}
    assert httpx.get(f"{url}/api/2.0/mlflow/experiments/search?max_results=1", headers=known).status_code == 200
    pages = {"Origin": f"https://{HOST}"}
    search = {"experiment_ids": [each.experiment_id for each in client.search_experiments()]}
    for origin, answer in ((pages, 200), ({"Origin": "https://evil.example"}, 403)):
        assert httpx.post(f"{url}/ajax-api/2.0/mlflow/runs/search", json=search, headers=origin).status_code == answer
    foreign = httpx.get(f"{url}/api/2.0/mlflow/experiments/search?max_results=1", headers={"Host": "evil.example"})
    assert foreign.status_code == 403
