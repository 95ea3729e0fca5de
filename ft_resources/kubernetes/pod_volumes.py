"""Volumes of a worker's pod, and where its containers mount them."""

from typing import Any

from ft_resources.kubernetes.job_plan import PodPlan
from ft_resources.kubernetes.worker_settings import MOUNTS, WebIdentity

_GIB = 1024
_READ_ONLY = ("store-identity", "warm")


def mounts_of(plan: PodPlan) -> list[dict[str, Any]]:
    return [
        {"name": name, "mountPath": MOUNTS[name], **({"readOnly": True} if name in _READ_ONLY else {})}
        for name in (volume["name"] for volume in volumes_of(plan))
    ]


def volumes_of(plan: PodPlan) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        {"name": "scratch", "emptyDir": {"sizeLimit": _size(plan.settings.scratch_gib)}},
        {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
        {
            "name": "shared-memory",
            "emptyDir": {"medium": "Memory", "sizeLimit": _size(plan.shared_memory_gib)},
        },
        {"name": "cache", **_cache(plan)},
    ]
    if plan.settings.identity:
        volumes.append(token_volume(plan.settings.identity))
    if reads_warm_bases(plan):
        # A node that nobody kept warm has no such folder; an empty one is as good.
        warm = {"path": plan.settings.cache.warm_path, "type": "DirectoryOrCreate"}
        volumes.append({"name": "warm", "hostPath": warm})
    return volumes


def _cache(plan: PodPlan) -> dict[str, Any]:
    """The cache's volume, 1.5 times as large as the cache's limit."""
    size = _size(1.5 * plan.settings.cache.size_gib)
    if plan.settings.cache.kind == "host-path":
        # Not created by the kubelet, as it would be root's.
        return {"hostPath": {"path": plan.settings.cache.path_of(plan.spec.address.tenant), "type": "Directory"}}
    if plan.settings.cache.kind == "empty-dir":
        return {"emptyDir": {"sizeLimit": size}}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        **({"storageClassName": plan.settings.cache.storage_class} if plan.settings.cache.storage_class else {}),
    }
    return {"ephemeral": {"volumeClaimTemplate": {"spec": claim}}}


def _size(gib: float) -> str:
    return f"{max(1, round(gib * _GIB))}Mi"


def token_volume(identity: WebIdentity) -> dict[str, Any]:
    """The volume of the token that the role is had for, to be mounted at ``worker_settings.IDENTITY``."""
    token = {"audience": identity.audience, "expirationSeconds": identity.token_s, "path": "token"}
    return {"name": "store-identity", "projected": {"sources": [{"serviceAccountToken": token}]}}


def reads_warm_bases(plan: PodPlan) -> bool:
    """Only work with GPUs loads bases."""
    return plan.settings.keeps_bases and plan.gpus > 0
