"""A test cluster with a queue, and what a process needs to use it."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.objects import CLUSTER_QUEUES, FLAVORS, KUEUE, LOCAL_QUEUES, NAMESPACES, Object
from tests.resources.kubernetes.specs import IMAGE

TENANT, QUEUE = "acme", "ft-acme"
_SMALL = {"cpus": 1.0, "memory_gib": 4.0, "cpus_per_gpu": 1.0, "memory_gib_per_gpu": 4.0, "scratch_gib": 4.0}


@contextmanager
def cluster_with_queue(*, gpus: int, cpus: float = 1000.0, tenants: tuple[str, ...] = (TENANT,)) -> Iterator[Cluster]:
    """A cluster of this process, whose KUBECONFIG it has, with namespaces of ``tenants`` that share a quota."""
    cluster = Cluster(nodes=2, gpus=max(gpus, 8))
    before = os.environ.get("KUBECONFIG")
    os.environ["KUBECONFIG"] = str(cluster.kubeconfig())
    try:
        _queue(cluster, tenants, {"cpu": cpus, "memory": "4000Gi", "nvidia.com/gpu": gpus})
        yield cluster
    finally:
        if before is None:
            del os.environ["KUBECONFIG"]
        else:
            os.environ["KUBECONFIG"] = before
        cluster.close()


def settings_file(folder: Path, cluster: Cluster, **changes: Any) -> Path:
    """The platform's settings of the cluster; JSON is YAML."""
    path = folder / "kubernetes.yaml"
    settings = {"image": IMAGE, "service_account": "default", "queue": QUEUE, **_SMALL, **changes}
    path.write_text(json.dumps(settings))
    return path


def sleeper(name: str, *, cpus: int = 1) -> Object:
    """A Job of the queue that does nothing but take ``cpus`` of its quota for an hour."""
    container: Object = {
        "name": "t",
        "image": "sleeper",
        "command": ["sleep", "3600"],
        "terminationMessagePolicy": "File",
    }
    container["resources"] = {"requests": {"cpu": str(cpus), "memory": "1Gi"}}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    spec = {"suspend": True, "parallelism": 1, "completions": 1, "backoffLimit": 0, "completionMode": "Indexed"}
    labels = {"kueue.x-k8s.io/queue-name": QUEUE}
    about = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels}}
    return {**about, "spec": {**spec, "template": {"spec": pod}}}


def _queue(cluster: Cluster, tenants: tuple[str, ...], quota: dict[str, Any]) -> None:
    objects = cluster.objects
    resources = [{"name": name, "nominalQuota": str(amount)} for name, amount in quota.items()]
    flavors = [{"name": QUEUE, "resources": resources}]
    group = {"coveredResources": list(quota), "flavors": flavors}
    objects.create(FLAVORS, "", {"metadata": {"name": QUEUE}, "spec": {}})
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    objects.create(CLUSTER_QUEUES, "", {"metadata": {"name": QUEUE}, "spec": spec})
    for tenant in tenants:
        namespace = f"ft-{tenant}"
        objects.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        local = {"apiVersion": KUEUE, "metadata": {"name": QUEUE, "namespace": namespace}}
        objects.create(LOCAL_QUEUES, namespace, {**local, "spec": {"clusterQueue": QUEUE}})
