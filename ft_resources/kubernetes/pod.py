"""The pod of a worker: an unprivileged process with a read-only root, local disk, and no access to the API server."""

from collections.abc import Sequence
from typing import Any

from ft_resources.kubernetes import names
from ft_resources.kubernetes.job_plan import MASTER_PORT, PodPlan
from ft_resources.kubernetes.places import Toleration
from ft_resources.kubernetes.pod_volumes import mounts_of, reads_warm_bases, volumes_of
from ft_resources.kubernetes.worker_settings import CACHE, IDENTITY, SCRATCH, WARM, WebIdentity

WORKER = "worker"
"""Name of the container that runs the worker."""
FETCH = "fetch"
_GIB = 1024
_PYTHON = "python"


def pod_spec(plan: PodPlan) -> dict[str, Any]:
    """``spec`` of the pod template: an init container fetches the inputs, then the worker runs."""
    return {
        "restartPolicy": "Never",
        "serviceAccountName": plan.settings.service_account_of(plan.spec.address.tenant),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": plan.grace_s,
        "securityContext": unprivileged_pod(plan.settings.run_as),
        **({"subdomain": plan.name} if plan.nodes > 1 else {}),
        **({"nodeSelector": dict(plan.node_selector)} if plan.node_selector else {}),
        **({"runtimeClassName": plan.run_code.runtime_class} if plan.run_code and plan.run_code.runtime_class else {}),
        **({"affinity": _elsewhere(plan.avoid)} if plan.avoid else {}),
        "tolerations": tolerated(plan.tolerations, plan.settings.node_loss_s),
        "initContainers": [_container(plan, FETCH, ["ft_assets.fetch"])],
        "containers": [_worker(plan)],
        "volumes": volumes_of(plan),
    }


def unprivileged_pod(user: int) -> dict[str, Any]:
    """``securityContext`` of a pod that runs as ``user``, as the Pod Security level "restricted" wants it."""
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def unprivileged_container() -> dict[str, Any]:
    """``securityContext`` of its containers."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _worker(plan: PodPlan) -> dict[str, Any]:
    """The worker's container: it alone has the GPUs, the judges' API keys and the sandbox's permissions."""
    first = ["ft_resources.kubernetes.entrypoint", _PYTHON, "-m"]
    container = _container(plan, WORKER, [*first, plan.module], gpus=plan.gpus)
    for key in plan.judge_keys:
        # Optional: the worker reports a missing key more clearly than a container that fails to start.
        reference = {"name": plan.settings.judges.secret, "key": key, "optional": True}
        container["env"].append({"name": key, "valueFrom": {"secretKeyRef": reference}})
    if plan.settings.monitoring_namespace:
        container["env"].append({"name": "FT_METRICS_PORT", "value": str(names.METRICS_PORT)})
        container["ports"] = [{"name": "metrics", "containerPort": names.METRICS_PORT}]
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
    devices = {plan.gpu_resource: str(gpus), **_network(plan)} if gpus else {}
    return {
        "name": name,
        "image": plan.image,
        "imagePullPolicy": "IfNotPresent",
        "command": [_PYTHON, "-m", *modules, plan.spec.location],
        "env": _environment(plan),
        **({"envFrom": [{"secretRef": {"name": plan.settings.secret}}]} if plan.settings.secret else {}),
        # Memory request equals its limit, so that neighbours' usage never gets a training killed.
        "resources": {
            "requests": {"cpu": f"{round(plan.cpus * 1000)}m", "memory": memory, **devices},
            "limits": {"memory": memory, **devices},
        },
        "securityContext": unprivileged_container(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts_of(plan),
    }


def _network(plan: PodPlan) -> dict[str, str]:
    """Resources by which the pods of several nodes exchange gradients."""
    if plan.network is None:
        return {}
    pages = {"hugepages-2Mi": f"{plan.network.hugepages_mib}Mi"} if plan.network.hugepages_mib else {}
    return {**{name: str(count) for name, count in plan.network.resources.items()}, **pages}


def _environment(plan: PodPlan) -> list[dict[str, Any]]:
    own = {
        "HOME": f"{SCRATCH}/home",
        "TMPDIR": f"{SCRATCH}/tmp",
        "FT_SCRATCH": SCRATCH,
        # A private folder inside the volume: the cache requires one that only this user can access.
        "FT_CACHE": f"{CACHE}/files",
        "FT_CACHE_MB": str(round(plan.settings.cache.size_gib * _GIB)),
    }
    if plan.nodes > 1:
        own["MASTER_ADDR"] = f"{plan.name}-0.{plan.name}.{plan.namespace}.svc"
        own["MASTER_PORT"] = str(MASTER_PORT)
    if plan.network:
        own |= plan.network.environment
    if plan.gpu_shared_by:
        # Neighbours on the GPU need the rest; a tenth is for CUDA itself, which this does not count.
        limit = f"expandable_segments:True,per_process_memory_fraction:{0.9 / plan.gpu_shared_by:.4f}"
        own |= dict.fromkeys(("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"), limit)
    if reads_warm_bases(plan):
        own["FT_WARM_CACHE"] = f"{WARM}/files"
    if plan.settings.identity:
        own |= role_of(plan.settings.identity, plan.spec.address.tenant, session=plan.name, policy=plan.policy)
    written: list[dict[str, Any]] = [
        {"name": name, "value": value} for name, value in {**plan.settings.environment, **own}.items()
    ]
    # Alerts and errors name it.
    written.append({"name": "FT_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}})
    if plan.nodes > 1:
        index = f"metadata.labels['{names.JOB_INDEX}']"
        written.append({"name": "NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": index}}})
    return written


def role_of(identity: WebIdentity, tenant: str, *, session: str, policy: str | None) -> dict[str, str]:
    """Variables by which a process has the tenant's role for the store, narrowed by ``policy``."""
    role = {
        "AWS_ROLE_ARN": identity.role_arn.replace("{tenant}", tenant),
        "AWS_WEB_IDENTITY_TOKEN_FILE": f"{IDENTITY}/token",
        "AWS_ROLE_SESSION_NAME": session,
    }
    return role | ({"FT_SESSION_POLICY": policy} if policy else {})


def _elsewhere(nodes: Sequence[str]) -> dict[str, Any]:
    """On none of ``nodes``. A field of a node is compared with one value at a time."""
    none = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    terms = {"nodeSelectorTerms": [{"matchFields": none}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def tolerated(tolerations: Sequence[Toleration], node_loss_s: int) -> list[dict[str, Any]]:
    """Tolerations of the requested nodes, and a shorter tolerance of lost nodes than the cluster's 300 s."""
    asked: list[dict[str, Any]] = [
        {
            "key": each.key,
            "operator": "Equal" if each.value is not None else "Exists",
            **({"value": each.value} if each.value is not None else {}),
            "effect": each.effect,
        }
        for each in tolerations
    ]
    lost = [
        {
            "key": f"node.kubernetes.io/{state}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": node_loss_s,
        }
        for state in ("not-ready", "unreachable")
    ]
    return [*asked, *lost]
