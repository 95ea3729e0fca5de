"""Nodes that are kept although nobody works there: pods that hold all GPUs of a node and give way to any worker.

Such a pod has the lowest priority, so the scheduler removes it as soon as a worker needs its GPUs. Its Deployment makes
the next one, which waits; a cluster that scales itself adds a node for it. Kueue does not know these pods: they take
nothing of anybody's quota. Their container is a worker's image, which is therefore on the node, and it fetches bases
to a folder there that workers only read (``warm_process.py``).
"""

from typing import Any

from ft_resources.kubernetes.names import MANAGED_BY, PREFIX, TENANT
from ft_resources.kubernetes.pod import (
    role_of,
    tolerated,
    unprivileged_container,
    unprivileged_pod,
)
from ft_resources.kubernetes.pod_volumes import token_volume
from ft_resources.kubernetes.s3_policy import SHARED, bases_policy
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.kubernetes.warm_settings import Warm, warm_name
from ft_resources.kubernetes.worker_settings import IDENTITY, WARM
from ft_resources.store_layout import Layout

Manifest = dict[str, Any]
NAME = "ft-warm"
PRIORITY = -10
"""Below the 0 of pods without a class. Cluster Autoscaler takes what is below -10 for expendable: it would not keep a
node for it (``--expendable-pods-priority-cutoff``)."""
_GPU_TYPE = f"{PREFIX}/warm"


def warm_objects(settings: KubernetesSettings, store_url: str, layout: Layout) -> list[Manifest]:
    """The priority class, and a Deployment for each GPU type of ``keep_warm``, in the namespace of ``shared``."""
    if not settings.keep_warm:
        return []
    lowest: Manifest = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/managed-by": MANAGED_BY, TENANT: SHARED}},
        "value": PRIORITY,
        "preemptionPolicy": "Never",
        "description": "Pods that keep nodes warm; every other pod goes before them.",
    }
    return [
        lowest,
        *(_deployment(settings, name, warm, store_url, layout) for name, warm in settings.keep_warm.items()),
    ]


def _deployment(settings: KubernetesSettings, name: str, warm: Warm, store_url: str, layout: Layout) -> Manifest:
    deployment = warm_name(name)
    own = {_GPU_TYPE: deployment.removeprefix(f"{NAME}-")}
    labels = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/managed-by": MANAGED_BY, TENANT: SHARED, **own}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": deployment,
            "namespace": settings.namespace_of(SHARED),
            "labels": labels,
        },
        "spec": {
            "replicas": warm.nodes,
            "selector": {"matchLabels": {"app.kubernetes.io/name": NAME, **own}},
            # A new pod beside the old one would need one more node.
            "strategy": {"type": "Recreate"},
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
                },
                "spec": _pod(settings, name, warm, store_url, layout),
            },
        },
    }


def _pod(settings: KubernetesSettings, name: str, warm: Warm, store_url: str, layout: Layout) -> Manifest:
    gpu = settings.gpu_types[name]
    places = [settings.spot_nodes if settings.spot else settings.on_demand, gpu]
    selector = {label: value for place in places for label, value in place.node_selector.items()}
    return {
        "priorityClassName": NAME,
        "serviceAccountName": settings.service_account_of(SHARED),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # Nothing is lost with it, and a worker waits for its place.
        "terminationGracePeriodSeconds": 1,
        "securityContext": unprivileged_pod(settings.run_as),
        **({"nodeSelector": selector} if selector else {}),
        "tolerations": tolerated([each for place in places for each in place.tolerations], settings.node_loss_s),
        "containers": [_container(settings, gpu.resource, warm, store_url, layout)],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}, *(_of_bases(settings) if warm.bases else [])],
    }


def _of_bases(settings: KubernetesSettings) -> list[Manifest]:
    """Volumes of a pod that fetches bases."""
    # Not created by the kubelet, as it would be root's.
    folder = {"name": "warm", "hostPath": {"path": settings.cache.warm_path, "type": "Directory"}}
    return [folder, *([token_volume(settings.identity)] if settings.identity else [])]


def _container(settings: KubernetesSettings, resource: str, warm: Warm, store_url: str, layout: Layout) -> Manifest:
    devices = {resource: str(warm.gpus)}
    environment = {"HOME": "/tmp", "TMPDIR": "/tmp"}
    mounts: list[Manifest] = [{"name": "tmp", "mountPath": "/tmp"}]
    command = ["python", "-m", "ft_resources.kubernetes.warm_process"]
    secret = settings.secret if warm.bases else None
    if warm.bases:
        command += [store_url, str(int(layout)), *warm.bases]
        environment = settings.environment | environment
        environment |= {"FT_CACHE": f"{WARM}/files", "FT_CACHE_MB": str(round(settings.cache.size_gib * 1024))}
        mounts.append({"name": "warm", "mountPath": WARM})
        if settings.identity:
            policy = bases_policy(store_url, layout, settings.identity.kms_key)
            environment |= role_of(settings.identity, SHARED, session=NAME, policy=policy)
            mounts.append({"name": "store-identity", "mountPath": IDENTITY, "readOnly": True})
    return {
        "name": "warm",
        "image": warm.image or settings.image,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        **({"envFrom": [{"secretRef": {"name": secret}}]} if secret else {}),
        "resources": {
            "requests": {"cpu": "500m", "memory": "2Gi", **devices},
            "limits": {"memory": "2Gi", **devices},
        },
        "securityContext": unprivileged_container(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
