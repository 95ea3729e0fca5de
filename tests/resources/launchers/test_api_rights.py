"""What the launcher and the HTTP API ask of a cluster is what the manifests let their accounts do, and no more."""

import re
import time
from pathlib import Path

import pytest
import yaml

from ft_resources.attempts import Attempt
from ft_resources.execution import Execution
from tests.k8s.chart import K8S
from tests.resources.launchers.conftest import OnCluster
from tests.resources.small_work import begun, claimed

pytestmark = pytest.mark.cluster
_PATH = re.compile(r"(GET|DELETE|POST|PATCH) /\S+?/namespaces/[^/]+/([a-z]+)(?:/([^/?]+))?(?:/([a-z]+))?(?:\?(\S*))?$")


def asked_for(line: str) -> tuple[str, str]:
    """Resource and verb of a request, as RBAC has them."""
    found = _PATH.match(line)
    assert found is not None, line
    method, resource, name, part, query = found.groups(default="")
    verb = {"GET": "get" if name else "list", "DELETE": "delete", "POST": "create", "PATCH": "patch"}[method]
    return f"{resource}/{part}" if part else resource, "watch" if "watch=true" in query.lower() else verb


def granted(kind: str, name: str) -> set[tuple[str, str]]:
    """The rights of a role of the base, by resource and verb."""
    (role,) = [
        each
        for each in yaml.safe_load_all((K8S / "kustomize" / "base" / "rbac.yaml").read_text())
        if (each["kind"], each["metadata"]["name"]) == (kind, name)
    ]
    return {(name, verb) for rule in role["rules"] for name in rule["resources"] for verb in rule["verbs"]}


def test_the_launcher_asks_for_every_right_that_it_has_and_for_no_other(on_cluster: OnCluster) -> None:
    access = on_cluster.access
    requests = access.machines.server.requests
    queue = access.queue(gpus=1)
    for name, value in (("ft-batch", 2000), ("ft-batch-age-3", 3050)):
        access.make("workloadpriorityclasses", "WorkloadPriorityClass", name, {"value": value})
    place = on_cluster.place(queue=queue)
    before = len(requests)
    assert place.execution().run(on_cluster.work(nodes=2, priority="batch"), actor="ann").attempts == 1
    launcher = on_cluster.launcher(queue=queue, clock=lambda: time.time() + 13 * 3600)
    waiting = on_cluster.work("y", held=1, gpus=2, gpu_sizes=(2, 1), priority="batch")
    spec, attempt = claimed(place.store, waiting)
    assert launcher.gpus_now(spec, attempt) == 1
    launcher.launch(spec, attempt)
    # A request whose answer was lost, why it waits, ageing, and an end that leaves no time to save.
    launcher.launch(spec, attempt)
    launcher.why_waiting(attempt)
    assert launcher.queue is not None
    launcher.queue.age(place.store)
    assert launcher.remote.jobs(place.store.url)
    running = on_cluster.work("z", held=1)
    on_cluster.launched(running)
    on_cluster.launcher().stop(begun(place.store, running), 0.0)
    lines = [line for _, line in list(requests)[before:]]
    wide = {line.partition("?")[0].removeprefix("GET ") for line in lines if "/namespaces/" not in line}
    kueue = "/apis/kueue.x-k8s.io"
    quota = {f"{kueue}/v1beta2/{each}" for each in ("clusterqueues", "cohorts", "resourceflavors")}
    assert wide == {"/apis/batch/v1/jobs", kueue, f"{kueue}/v1beta2/workloadpriorityclasses", *quota}
    assert {each.rpartition("/")[2] for each in wide} - {"kueue.x-k8s.io"} == {
        resource for resource, _ in granted("ClusterRole", "ft-orphans")
    }
    asked = {asked_for(line) for line in lines if "/namespaces/" in line}
    assert asked == granted("ClusterRole", "ft-launcher")


def test_what_dagsters_client_calls_is_what_its_role_lets_it_do() -> None:
    from dagster_k8s import client

    verbs = {"read": "get", "list": "list", "create": "create", "delete": "delete"}
    parts = {"job_status": "jobs/status", "pod_log": "pods/log"}
    calls = re.findall(r"_api\.([a-z]+)_namespaced_([a-z_]+)\(", Path(client.__file__).read_text())
    asked = {(parts.get(resource, f"{resource}s"), verbs[verb]) for verb, resource in calls}
    assert granted("Role", "ft-runs") == asked


def test_looking_and_stopping_take_the_rights_that_the_api_has(on_cluster: OnCluster) -> None:
    place, request = on_cluster.place(), on_cluster.work(held=1)
    on_cluster.launched(request)
    attempt = place.begun(request)
    requests = on_cluster.access.machines.server.requests
    before = len(requests)
    # As the API has them: of another process than the one that launched.
    launcher = on_cluster.launcher()
    launcher.why_waiting(Attempt(place.store, attempt.address, attempt.number))
    assert Execution(store=place.store, launcher=launcher).cancel(attempt.address, actor="ann")
    asked = {asked_for(line) for _, line in list(requests)[before:]}
    assert asked <= granted("ClusterRole", "ft-api")
    assert {("jobs", "delete"), ("pods", "list"), ("events", "list")} <= asked
