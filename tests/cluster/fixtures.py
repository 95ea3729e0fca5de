"""The cluster that tests run on: the one beside this file, or a real one.

With FT_CLUSTER_TEST=real the same tests run on the cluster of KUBECONFIG (a KUBECONFIG alone is not taken for a wish:
it may be production's), and leave nothing there. docs/how-to/cluster-tests.md says what that cluster needs. What
needs a hand on the machines themselves is skipped there.
"""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.objects import KUEUE

T = TypeVar("T")


@dataclass
class Access:
    """A namespace of one's own on a cluster. ``made`` is the test cluster, None on a real one."""

    kubeconfig: Path
    namespace: str
    image: str
    made: Cluster | None
    cluster_wide: list[tuple[str, str]] = field(default_factory=list)

    @property
    def machines(self) -> Cluster:
        """For faults that only who owns the machines can make; skips the test on a real cluster."""
        if self.made is None:
            pytest.skip("this fault needs a hand on the machines, which a real cluster's tests do not have")
        return self.made

    @property
    def long_s(self) -> int:
        """A time that passes only by ``after``; on a real cluster a few real seconds."""
        return 3600 if self.made else 5

    def after(self, seconds: float) -> None:
        """Let ``seconds`` pass, at once where the clock is a test's to move."""
        if self.made:
            self.made.objects.clock.advance(seconds)
        else:
            time.sleep(seconds)

    def client(self, retries: int | None = None) -> Any:
        from kubernetes import client, config

        settings = client.Configuration()
        settings.retries = retries
        config.load_kube_config(str(self.kubeconfig), client_configuration=settings)
        return client.ApiClient(settings)

    @property
    def batch(self) -> Any:
        from kubernetes import client

        return client.BatchV1Api(self.client())

    @property
    def core(self) -> Any:
        from kubernetes import client

        return client.CoreV1Api(self.client())

    @property
    def custom(self) -> Any:
        from kubernetes import client

        return client.CustomObjectsApi(self.client())

    def run(self, name: str, code: str, *, gpus: int = 0, labels: dict[str, str] | None = None, **spec: Any) -> Any:
        """Create an Indexed Job whose container ``t`` runs ``code``; ``pod``, ``container`` and ``annotations`` (of its
        pods) in ``spec`` add."""
        pod, container, notes = (spec.pop(each, {}) for each in ("pod", "container", "annotations"))
        limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
        one = {"name": "t", "image": self.image, "command": ["python3", "-u", "-c", code], "resources": limits}
        inside = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [one | container]}
        job = {"completionMode": "Indexed", "completions": 1, "backoffLimit": 0, **spec}
        job["template"] = {"metadata": {"labels": {"app": name}, "annotations": notes}, "spec": inside | pod}
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": labels or {}},
            "spec": job,
        }
        return self.batch.create_namespaced_job(self.namespace, body)

    def job(self, name: str) -> Any:
        return self.batch.read_namespaced_job(name, self.namespace)

    def pods(self, name: str) -> list[Any]:
        items: list[Any] = self.core.list_namespaced_pod(self.namespace, label_selector=f"job-name={name}").items
        return items

    def ended(self, name: str) -> list[tuple[str, str]]:
        """Type and reason of a Job's conditions that are true, in order, once the last is Complete or Failed."""

        def conditions() -> list[tuple[str, str]]:
            true = [one for one in self.job(name).status.conditions or [] if one.status == "True"]
            last = [(one.type, one.reason) for one in true]
            return last if last and last[-1][0] in ("Complete", "Failed") else []

        return until(conditions)

    def running(self, name: str, count: int = 1) -> list[Any]:
        """The pods of a Job, once ``count`` run."""

        def pods() -> list[Any]:
            found = [one for one in self.pods(name) if one.status.phase == "Running"]
            return found if len(found) == count else []

        return until(pods)

    def log(self, pod: str, **options: Any) -> str:
        """What a pod said. Asked for as bytes: python client 36.0.3 gives text as the text "b'…'"."""
        reply = self.core.read_namespaced_pod_log(pod, self.namespace, _preload_content=False, **options)
        return str(reply.data.decode())

    def events(self, name: str) -> list[tuple[str, str]]:
        """Reason and message of what was told about an object."""
        found = self.core.list_namespaced_event(self.namespace, field_selector=f"involvedObject.name={name}").items
        return [(event.reason, event.message) for event in found]

    def queue(self, gpus: int, preempts: bool = True, check: str = "", **flavor: Any) -> str:
        """A LocalQueue of this namespace with a quota of its own; its name, which is its ClusterQueue's too. ``check``
        is an AdmissionCheck, ``flavor`` more of its ResourceFlavor's spec."""
        name = f"ft-{uuid.uuid4().hex[:8]}"
        quotas = {"nvidia.com/gpu": gpus, "cpu": 1000, "memory": "1000Gi"}
        resources = [{"name": resource, "nominalQuota": quota} for resource, quota in quotas.items()]
        group = {"coveredResources": list(quotas), "flavors": [{"name": name, "resources": resources}]}
        policy = {"withinClusterQueue": "LowerPriority" if preempts else "Never"}
        spec: dict[str, Any] = {"namespaceSelector": {}, "resourceGroups": [group], "preemption": policy}
        if check:
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": check, "onFlavors": [name]}]}
        self.make("resourceflavors", "ResourceFlavor", name, {"spec": flavor} if flavor else {})
        self.make("clusterqueues", "ClusterQueue", name, {"spec": spec})
        body = {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": name}, "spec": {"clusterQueue": name}}
        self.custom.create_namespaced_custom_object(*KUEUE.split("/"), self.namespace, "localqueues", body)
        return name

    def priorities(self, **values: int) -> dict[str, str]:
        """Names of WorkloadPriorityClasses of these values, which no installation's own classes have."""
        names = {name: f"{name}-{uuid.uuid4().hex[:6]}" for name in values}
        for name, value in values.items():
            self.make("workloadpriorityclasses", "WorkloadPriorityClass", names[name], {"value": value})
        return names

    def check(self, prefix: str = "ft-") -> str:
        """An AdmissionCheck that nobody but a test answers, by ``answer``; its name starts with ``prefix``."""
        name = f"{prefix}{uuid.uuid4().hex[:8]}"
        self.make("admissionchecks", "AdmissionCheck", name, {"spec": {"controllerName": f"example.com/{name}"}})
        active = {"type": "Active", "status": "True", "reason": "Tested", "message": "a test answers"}
        status = {"status": {"conditions": [{**active, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
        self.custom.patch_cluster_custom_object_status(*KUEUE.split("/"), "admissionchecks", name, status)
        return name

    def answer(self, job: str, check: str, state: str, message: str = "") -> None:
        """Answer the check of a Job that has its quota."""

        def asked() -> dict[str, Any] | None:
            found = self.workload(job)
            return found if "admission" in found.get("status", {}) else None

        workload = until(asked)
        answer = {"name": check, "state": state, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        where = (*KUEUE.split("/"), self.namespace, "workloads", workload["metadata"]["name"])
        self.custom.patch_namespaced_custom_object_status(*where, {"status": {"admissionChecks": [answer]}})

    def make(self, plural: str, kind: str, name: str, body: dict[str, Any]) -> None:
        """Create an object of the whole cluster, which goes when the test ends."""
        whole = {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name}, **body}
        self.custom.create_cluster_custom_object(*KUEUE.split("/"), plural, whole)
        self.cluster_wide.append((plural, name))

    def workload(self, job: str) -> dict[str, Any]:
        """The Workload of a Job, once Kueue has made it."""

        def owned() -> dict[str, Any] | None:
            items = self.custom.list_namespaced_custom_object(*KUEUE.split("/"), self.namespace, "workloads")["items"]
            return next((one for one in items if one["metadata"]["ownerReferences"][0]["name"] == job), None)

        return until(owned)

    def leave(self) -> None:
        """Remove all that a test made here, and wait until it is gone."""
        core, custom, group = self.core, self.custom, KUEUE.split("/")
        left: list[tuple[Callable[..., Any], tuple[str, ...]]] = [(core.read_namespace, (self.namespace,))]
        _forgiven(core.delete_namespace, self.namespace)
        for plural, name in reversed(self.cluster_wide):
            _forgiven(custom.delete_cluster_custom_object, *group, plural, name)
            left.append((custom.get_cluster_custom_object, (*group, plural, name)))
        # Kueue lets go of a queue when its last Workload is gone, and a namespace ends after the grace of its pods.
        until(lambda: all(_forgiven(read, *named) is None for read, named in left))


def _forgiven(call: Callable[..., Any], *named: str) -> Any:
    """What the API answers; None for what is not there."""
    from kubernetes.client.exceptions import ApiException

    try:
        return call(*named)
    except ApiException as error:
        if error.status != 404:
            raise
        return None


def until(look: Callable[[], T | None], within_s: float = 600) -> T:
    """What ``look`` gives, once it is something."""
    end = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < end, f"{look.__qualname__} saw nothing in {within_s} s"
        time.sleep(0.05)
    return found


@pytest.fixture
def cluster() -> Iterator[Access]:
    """A cluster, and a namespace on it that is this test's alone."""
    real = os.environ.get("FT_CLUSTER_TEST") == "real"
    made = None if real else Cluster()
    kubeconfig = made.kubeconfig() if made else Path(os.environ["KUBECONFIG"])
    image = os.environ.get("FT_CLUSTER_IMAGE", "python:3.11-slim")
    access = Access(kubeconfig, f"ft-test-{uuid.uuid4().hex[:8]}", image, made)
    access.core.create_namespace({"metadata": {"name": access.namespace}})
    try:
        yield access
    finally:
        if made:
            made.close()
        else:
            access.leave()
