"""The pod of a worker: an unprivileged process with a read-only root, local disk, and no way to the cluster's API."""

from typing import Any

from ft_resources.kubernetes import names
from ft_resources.kubernetes.plan import MASTER_PORT, PodPlan

WORKER = "worker"
"""Name of the container whose end is the worker's."""
FETCH = "fetch"
SCRATCH, CACHE, SHARED_MEMORY, IDENTITY = "/scratch", "/cache", "/dev/shm", "/var/run/secrets/ft-store"
_GIB = 1024
_PYTHON = "python"


def pod_spec(plan: PodPlan) -> dict[str, Any]:
    """``spec`` of the pod template: an init container fetches what the work stands on, the worker does it."""
    return {
        "restartPolicy": "Never",
        "serviceAccountName": plan.service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": plan.grace_s,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": plan.run_as,
            "runAsGroup": plan.run_as,
            "fsGroup": plan.run_as,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **({"subdomain": plan.name} if plan.nodes > 1 else {}),
        **({"nodeSelector": dict(plan.node_selector)} if plan.node_selector else {}),
        **({"runtimeClassName": plan.run_code.runtime_class} if plan.run_code and plan.run_code.runtime_class else {}),
        "tolerations": _tolerations(plan),
        "initContainers": [_container(plan, FETCH, ["ft_assets.fetch"])],
        "containers": [_worker(plan)],
        "volumes": _volumes(plan),
    }


def _worker(plan: PodPlan) -> dict[str, Any]:
    """The container that does the work: it alone has the GPUs, the keys of judges, and the sandbox's rights."""
    first = ["ft_resources.kubernetes.first_process", _PYTHON, "-m"]
    container = _container(plan, WORKER, [*first, plan.module], gpus=plan.gpus)
    for key in plan.judge_keys:
        # One that is not there is missed by the worker, which says so better than a container that does not start.
        reference = {"name": plan.judge_secret, "key": key, "optional": True}
        container["env"].append({"name": key, "valueFrom": {"secretKeyRef": reference}})
    if plan.run_code:
        container["env"].append({"name": "FT_RUN_CODE", "value": "sandbox"})
        for field, profile in (
            ("seccompProfile", plan.run_code.seccomp_profile),
            ("appArmorProfile", plan.run_code.apparmor_profile),
        ):
            if profile:
                container["securityContext"][field] = {"type": "Localhost", "localhostProfile": profile}
    return container


def _container(plan: PodPlan, name: str, modules: list[str], gpus: int = 0) -> dict[str, Any]:
    memory = f"{round(plan.memory_gib * _GIB)}Mi"
    devices = {plan.gpu_resource: str(gpus)} if gpus else {}
    return {
        "name": name,
        "image": plan.image,
        "imagePullPolicy": "IfNotPresent",
        "command": [_PYTHON, "-m", *modules, plan.spec_location],
        "env": _environment(plan),
        **({"envFrom": [{"secretRef": {"name": plan.secret}}]} if plan.secret else {}),
        # Memory is requested as it is limited: no training is to be killed for what its neighbours take.
        "resources": {
            "requests": {"cpu": f"{round(plan.cpus * 1000)}m", "memory": memory, **devices},
            "limits": {"memory": memory, **devices},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(plan),
    }


def _environment(plan: PodPlan) -> list[dict[str, Any]]:
    own = {
        "HOME": f"{SCRATCH}/home",
        "TMPDIR": f"{SCRATCH}/tmp",
        "FT_SCRATCH": SCRATCH,
        # A folder of its own inside the volume: the cache wants one that is this user's alone.
        "FT_CACHE": f"{CACHE}/files",
        "FT_CACHE_MB": str(round(plan.cache.size_gib * _GIB)),
    }
    if plan.nodes > 1:
        own["MASTER_ADDR"] = f"{plan.name}-0.{plan.name}.{plan.namespace}.svc"
        own["MASTER_PORT"] = str(MASTER_PORT)
    if plan.identity:
        own["AWS_ROLE_ARN"] = plan.identity.role_arn.replace("{tenant}", plan.address.tenant)
        own["AWS_WEB_IDENTITY_TOKEN_FILE"] = f"{IDENTITY}/token"
        own["AWS_ROLE_SESSION_NAME"] = plan.name
        if plan.policy:
            own["FT_SESSION_POLICY"] = plan.policy
    written: list[dict[str, Any]] = [
        {"name": name, "value": value} for name, value in {**plan.environment, **own}.items()
    ]
    if plan.nodes > 1:
        index = f"metadata.labels['{names.JOB_INDEX}']"
        written.append({"name": "NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": index}}})
    return written


def _tolerations(plan: PodPlan) -> list[dict[str, Any]]:
    """Those of the nodes that were asked for, and a shorter patience with lost nodes than the cluster's 300 s."""
    asked: list[dict[str, Any]] = [
        {
            "key": each.key,
            "operator": "Equal" if each.value is not None else "Exists",
            **({"value": each.value} if each.value is not None else {}),
            "effect": each.effect,
        }
        for each in plan.tolerations
    ]
    lost = [
        {
            "key": f"node.kubernetes.io/{state}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": plan.node_loss_s,
        }
        for state in ("not-ready", "unreachable")
    ]
    return [*asked, *lost]


def _mounts(plan: PodPlan) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [
        {"name": "scratch", "mountPath": SCRATCH},
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "shared-memory", "mountPath": SHARED_MEMORY},
        {"name": "cache", "mountPath": CACHE},
    ]
    if plan.identity:
        mounts.append({"name": "store-identity", "mountPath": IDENTITY, "readOnly": True})
    return mounts


def _volumes(plan: PodPlan) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        {"name": "scratch", "emptyDir": {"sizeLimit": _size(plan.scratch_gib)}},
        {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": _size(plan.shared_memory_gib)}},
        {"name": "cache", **_cache(plan)},
    ]
    if plan.identity:
        token = {
            "audience": plan.identity.audience,
            "expirationSeconds": plan.identity.token_s,
            "path": "token",
        }
        volumes.append({"name": "store-identity", "projected": {"sources": [{"serviceAccountToken": token}]}})
    return volumes


def _cache(plan: PodPlan) -> dict[str, Any]:
    """The cache's volume, with half as much room again as it may fill."""
    size = _size(1.5 * plan.cache.size_gib)
    if plan.cache.kind == "host-path":
        # Tenants have different credentials, so they share no folder; made before, as the kubelet would make it root's.
        return {"hostPath": {"path": f"{plan.cache.path}/{plan.address.tenant}", "type": "Directory"}}
    if plan.cache.kind == "empty-dir":
        return {"emptyDir": {"sizeLimit": size}}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        **({"storageClassName": plan.cache.storage_class} if plan.cache.storage_class else {}),
    }
    return {"ephemeral": {"volumeClaimTemplate": {"spec": claim}}}


def _size(gib: float) -> str:
    return f"{max(1, round(gib * _GIB))}Mi"
