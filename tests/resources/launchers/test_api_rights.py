"""What the HTTP API asks of a cluster is what the manifests let its account do, and no more."""

import re

import pytest
import yaml

from ft_resources.attempts import Attempt
from ft_resources.execution import Execution
from tests.e2e.dagster_server import wait_for
from tests.k8s.chart import K8S
from tests.resources.launchers.conftest import OnCluster
from tests.resources.launchers.test_contract import spec_of

pytestmark = pytest.mark.cluster
_PATH = re.compile(r"(GET|DELETE|POST|PATCH) /\S+?/namespaces/[^/]+/([a-z]+)(?:/([^/?]+))?(?:/([a-z]+))?(?:\?(\S*))?$")


def asked_for(line: str) -> tuple[str, str]:
    """Resource and verb of a request, as RBAC has them."""
    found = _PATH.match(line)
    assert found is not None, line
    method, resource, name, part, query = found.groups(default="")
    verb = {"GET": "get" if name else "list", "DELETE": "delete", "POST": "create", "PATCH": "patch"}[method]
    return f"{resource}/{part}" if part else resource, "watch" if "watch=true" in query.lower() else verb


def test_looking_and_stopping_take_the_rights_that_the_api_has(on_cluster: OnCluster) -> None:
    place = on_cluster.place()
    spec, attempt = spec_of(place, "write", text="x", seconds=60.0)
    place.launcher().launch(spec, attempt)
    wait_for(lambda: place.lives(attempt), 30, "the worker", every_s=0.1)
    requests = on_cluster.access.machines.server.requests
    before = len(requests)
    # As the API has them: of another process than the one that launched.
    launcher = on_cluster.launcher()
    launcher.why_waiting(Attempt(place.store, attempt.address, attempt.number))
    assert Execution(store=place.store, launcher=launcher).cancel(attempt.address, actor="ann")
    asked = {asked_for(line) for _, line in list(requests)[before:]}
    (role,) = [
        each
        for each in yaml.safe_load_all((K8S / "kustomize" / "base" / "rbac.yaml").read_text())
        if (each["kind"], each["metadata"]["name"]) == ("ClusterRole", "ft-api")
    ]
    may = {(name, verb) for rule in role["rules"] for name in rule["resources"] for verb in rule["verbs"]}
    assert asked <= may
    assert {("jobs", "delete"), ("pods", "list"), ("events", "list")} <= asked
