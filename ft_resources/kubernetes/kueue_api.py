"""Kueue's own objects, read in whichever version of its API the cluster serves.

Kueue serves ``v1beta2`` since 0.15, and nothing else since 0.20. The fields that are read here are the same in both.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from ft_resources.kubernetes.api import Api
from ft_resources.kubernetes.objects import Object

GROUP = "kueue.x-k8s.io"
Version = Literal["v1beta2", "v1beta1"]
VERSIONS: tuple[Version, ...] = get_args(Version)
"""Those that are spoken, the preferred one first."""
API = f"{GROUP}/{VERSIONS[0]}"


def served_version(api: Api) -> Version | None:
    """The version to speak, by the cluster's own list; None if it has no Kueue that we understand.

    Asked each time: it is one small request, and a Kueue may be replaced while this process runs.
    """
    group = api.get(f"/apis/{GROUP}") or {}
    served = {each["version"] for each in group.get("versions") or ()}
    return next((version for version in VERSIONS if version in served), None)


def workload_of(api: Api, namespace: str, job: Object) -> Object | None:
    """The Workload that Kueue made for a Job; None without Kueue, or before it has seen the Job."""
    mine = {"labelSelector": f"{GROUP}/job-uid={job['metadata']['uid']}"}
    return next(iter(_items(api, f"namespaces/{namespace}/workloads", mine)), None)


def list_priority_classes(api: Api) -> Sequence[Object]:
    """All WorkloadPriorityClasses; none without Kueue."""
    return _items(api, "workloadpriorityclasses", {})


def local_queue(api: Api, namespace: str, name: str) -> Object | None:
    """A LocalQueue, or None."""
    version = served_version(api)
    return api.get(f"/apis/{GROUP}/{version}/namespaces/{namespace}/localqueues/{name}") if version else None


def list_quota(api: Api) -> tuple[Sequence[Object], Sequence[Object], Sequence[Object]]:
    """All ClusterQueues, Cohorts and ResourceFlavors; none without Kueue."""
    queues, cohorts, flavours = (_items(api, each, {}) for each in ("clusterqueues", "cohorts", "resourceflavors"))
    return queues, cohorts, flavours


def _items(api: Api, path: str, query: Mapping[str, str]) -> Sequence[Object]:
    version = served_version(api)
    return api.items(f"/apis/{GROUP}/{version}/{path}", query) if version else ()
