"""What an API server keeps: typed objects, versions, conflicts, finalizers, and a history to watch from."""

import copy
import itertools
import re
import secrets
import threading
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.cluster.clock import RunningClock

Object = dict[str, Any]
Match = Callable[[Object], bool]
KUEUE = "kueue.x-k8s.io/v1beta2"
_POD: Object = {"lastProbeTime": None}


@dataclass(frozen=True)
class Kind:
    """A kind that is served; ``api`` is its group and version as a path has it."""

    api: str
    name: str
    plural: str
    namespaced: bool = True
    fields: tuple[str, ...] = ()


JOBS = Kind("batch/v1", "Job", "jobs", fields=("status.successful",))
PODS = Kind("v1", "Pod", "pods", fields=("spec.nodeName", "status.phase"))
EVENTS = Kind(
    "v1",
    "Event",
    "events",
    fields=(*(f"involvedObject.{name}" for name in ("kind", "name", "namespace", "uid")), "reason", "type"),
)
NODES = Kind("v1", "Node", "nodes", namespaced=False)
WORKLOADS, LOCAL_QUEUES = Kind(KUEUE, "Workload", "workloads"), Kind(KUEUE, "LocalQueue", "localqueues")
CLUSTER_QUEUES = Kind(KUEUE, "ClusterQueue", "clusterqueues", namespaced=False)
COHORTS = Kind(KUEUE, "Cohort", "cohorts", namespaced=False)
FLAVORS = Kind(KUEUE, "ResourceFlavor", "resourceflavors", namespaced=False)
PRIORITIES = Kind(KUEUE, "WorkloadPriorityClass", "workloadpriorityclasses", namespaced=False)
CHECKS = Kind(KUEUE, "AdmissionCheck", "admissionchecks", namespaced=False)
TOPOLOGIES = Kind(KUEUE, "Topology", "topologies", namespaced=False)
NAMESPACES = Kind("v1", "Namespace", "namespaces", namespaced=False)
POD_PRIORITIES = Kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False)
SERVICES, SERVICE_ACCOUNTS = Kind("v1", "Service", "services"), Kind("v1", "ServiceAccount", "serviceaccounts")
QUOTAS = Kind("v1", "ResourceQuota", "resourcequotas")
SECRETS, POLICIES = Kind("v1", "Secret", "secrets"), Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
CONFIG_MAPS, DEPLOYMENTS = Kind("v1", "ConfigMap", "configmaps"), Kind("apps/v1", "Deployment", "deployments")
INGRESSES = Kind("networking.k8s.io/v1", "Ingress", "ingresses")
BUDGETS = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
RBAC, ADMISSION = "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"
MONITORING = "monitoring.coreos.com/v1"
POD_MONITORS = Kind(MONITORING, "PodMonitor", "podmonitors")
# Kept, and obeyed by nobody here: what is applied of these is typed, and found again.
_KEPT = (
    *(
        CONFIG_MAPS,
        DEPLOYMENTS,
        INGRESSES,
        BUDGETS,
        POD_MONITORS,
        POD_PRIORITIES,
        Kind(MONITORING, "PrometheusRule", "prometheusrules"),
    ),
    Kind(KUEUE, "ProvisioningRequestConfig", "provisioningrequestconfigs", namespaced=False),
    *(
        Kind(KUEUE, f"MultiKueue{name}", f"multikueue{name.lower()}s", namespaced=False)
        for name in ("Config", "Cluster")
    ),
    *(Kind(RBAC, "Role", "roles"), Kind(RBAC, "RoleBinding", "rolebindings")),
    Kind(RBAC, "ClusterRole", "clusterroles", namespaced=False),
    Kind(RBAC, "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    Kind(ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False),
    Kind(ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False),
)
KINDS = {
    (kind.api, kind.plural): kind
    for kind in (
        *(JOBS, PODS, EVENTS, NODES, NAMESPACES, SERVICES, SERVICE_ACCOUNTS, SECRETS, POLICIES, QUOTAS),
        *(WORKLOADS, LOCAL_QUEUES, CLUSTER_QUEUES, COHORTS, FLAVORS, PRIORITIES, CHECKS, TOPOLOGIES),
        *_KEPT,
    )
}


class ApiError(Exception):
    """An answer that is an error, with the Status body that goes with it."""

    def __init__(self, code: int, reason: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.code, self.headers = code, headers or {}
        self.status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        self.status |= {"message": message, "reason": reason, "code": code}


@dataclass(frozen=True)
class Change:
    """One step of the history: an object after it, and before it where there was one."""

    version: int
    type: str
    kind: Kind
    object: Object
    before: Object | None


def now(at: float | None = None) -> str:
    """A moment as it is written; ``at`` in seconds since 1970."""
    return (datetime.now(UTC) if at is None else datetime.fromtimestamp(at, UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


def suffix() -> str:
    return "".join(secrets.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(5))


class Objects:
    """Objects by kind, namespace and name. What it returns is shared: copy before changing."""

    def __init__(self) -> None:
        self.lock, self.clock = threading.RLock(), RunningClock()
        self.listeners: list[Callable[[Change], None]] = []
        self.history: deque[Change] = deque(maxlen=20_000)
        self.compacted = 0
        self._versions = itertools.count(1)
        self.version = 0
        self._kept: dict[Kind, dict[tuple[str, str], Object]] = {kind: {} for kind in KINDS.values()}

    def now(self, after_s: float = 0) -> str:
        """The cluster's own time, or that ``after_s`` from it."""
        return now(self.clock() + after_s)

    def since(self, moment: str) -> float:
        """Seconds of the cluster's time since a moment that it wrote."""
        return self.clock() - datetime.fromisoformat(moment).timestamp()

    def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return self._kept[kind].get((namespace, name))

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        found = self.find(kind, namespace, name)
        if found is None:
            raise ApiError(404, "NotFound", f'{_resource(kind)} "{name}" not found')
        return found

    def list(self, kind: Kind, namespace: str = "", match: Match = lambda _: True) -> list[Object]:
        with self.lock:
            kept = list(self._kept[kind].items())
        return [item for (place, _), item in kept if namespace in ("", place) and match(item)]

    def create(self, kind: Kind, namespace: str, body: Object) -> Object:
        item = copy.deepcopy(body) | {"kind": kind.name, "apiVersion": kind.api}
        meta = item.setdefault("metadata", {})
        with self.lock:
            if kind.namespaced:
                self.get(NAMESPACES, "", namespace)
                meta["namespace"] = namespace
            limit = 63 if kind in (JOBS, NAMESPACES, SERVICES) else 253
            if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", meta["name"]) or len(meta["name"]) > limit:
                raise invalid(kind, meta["name"], f'metadata.name: Invalid value: "{meta["name"]}"')
            if (namespace, meta["name"]) in self._kept[kind]:
                raise ApiError(409, "AlreadyExists", f'{_resource(kind)} "{meta["name"]}" already exists')
            meta |= {"uid": meta.get("uid") or str(uuid.uuid4()), "creationTimestamp": self.now()}
            if "spec" in item and kind is not SERVICES:
                meta["generation"] = 1
            return self._write(kind, item, "ADDED", None)

    def update(self, kind: Kind, new: Object, part: str = "") -> Object:
        """Replace an object but its status, its "status" alone, or "all". 409 where another version came between."""
        meta = new["metadata"]
        with self.lock:
            old = self.get(kind, meta.get("namespace", ""), meta["name"])
            if meta.get("resourceVersion", old["metadata"]["resourceVersion"]) != old["metadata"]["resourceVersion"]:
                text = "the object has been modified; please apply your changes to the latest version and try again"
                raise ApiError(
                    409, "Conflict", f'Operation cannot be fulfilled on {_resource(kind)} "{meta["name"]}": {text}'
                )
            if part == "status":
                item = copy.deepcopy(old) | {"status": copy.deepcopy(new.get("status", {}))}
            else:
                item = copy.deepcopy(new)
                if "status" in old and part != "all":
                    item["status"] = old["status"]
                for name in (
                    "uid",
                    "creationTimestamp",
                    "deletionTimestamp",
                    "deletionGracePeriodSeconds",
                    "generation",
                ):
                    if name in old["metadata"]:
                        item["metadata"][name] = old["metadata"][name]
                if item.get("spec") != old.get("spec") and "generation" in item["metadata"]:
                    item["metadata"]["generation"] += 1
            if not item["metadata"].get("finalizers"):
                item["metadata"].pop("finalizers", None)
            item["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
            return old if item == old else self._reap(kind, self._write(kind, item, "MODIFIED", old))

    def change(self, kind: Kind, item: Object, edit: Callable[[Object], object], part: str = "") -> Object | None:
        """Edit the latest version of ``item``; None where it is gone."""
        meta = item["metadata"]
        with self.lock:
            latest = self.find(kind, meta.get("namespace", ""), meta["name"])
            if latest is None or latest["metadata"]["uid"] != meta["uid"]:
                return None
            edit(draft := copy.deepcopy(latest))
            return self.update(kind, draft, part)

    def delete(self, kind: Kind, namespace: str, name: str, options: Object | None = None) -> Object:
        """Delete as asked by DeleteOptions. A Job without a propagation policy orphans its pods, as in batch/v1."""
        options = options or {}
        with self.lock:
            old = self.get(kind, namespace, name)
            for field, wanted in (options.get("preconditions") or {}).items():
                if wanted not in (None, old["metadata"][field]):
                    raise ApiError(409, "Conflict", f"Precondition failed: {field} in precondition: {wanted}")
            item, meta = (copy.deepcopy(old)), old["metadata"]
            policy = options.get("propagationPolicy") or ("Orphan" if kind is JOBS else "Background")
            keep = {"Foreground": ["foregroundDeletion"], "Orphan": ["orphan"]}.get(policy, [])
            finalizers = [*meta.get("finalizers", []), *keep]
            grace = _grace(old, options) if kind is PODS else 0
            if kind is not PODS and not finalizers:
                return self._remove(kind, old)
            if "deletionTimestamp" not in meta or grace < meta["deletionGracePeriodSeconds"]:
                item["metadata"]["generation"] = 2 if "deletionTimestamp" not in meta else meta["generation"]
                item["metadata"] |= {"deletionTimestamp": self.now(grace), "deletionGracePeriodSeconds": grace}
                if finalizers:
                    item["metadata"]["finalizers"] = list(dict.fromkeys(finalizers))
                old = self._write(kind, item, "MODIFIED", old)
            return self._reap(kind, old)

    def _reap(self, kind: Kind, item: Object) -> Object:
        meta = item["metadata"]
        over = "deletionTimestamp" in meta and not meta.get("finalizers") and meta["deletionGracePeriodSeconds"] == 0
        return self._remove(kind, item) if over else item

    def _remove(self, kind: Kind, item: Object) -> Object:
        return self._write(kind, copy.deepcopy(item), "DELETED", item)

    def _write(self, kind: Kind, item: Object, type_: str, before: Object | None) -> Object:
        self.version = next(self._versions)
        item["metadata"]["resourceVersion"] = str(self.version)
        place = (item["metadata"].get("namespace", ""), item["metadata"]["name"])
        if type_ == "DELETED":
            del self._kept[kind][place]
        else:
            self._kept[kind][place] = item
        if len(self.history) == self.history.maxlen:
            self.compacted = self.history[0].version
        self.history.append(change := Change(self.version, type_, kind, item, before))
        for listener in self.listeners:
            listener(change)
        return item

    def compact(self) -> None:
        """Forget the history: whoever watches from an older version is told 410."""
        with self.lock:
            self.history.clear()
            self.compacted = self.version


def invalid(kind: Kind, name: str, why: str) -> ApiError:
    group = kind.api.partition("/")[0] if "/" in kind.api else ""
    return ApiError(422, "Invalid", f'{kind.name}{"." + group if group else ""} "{name}" is invalid: {why}')


def _resource(kind: Kind) -> str:
    return f"{kind.plural}.{kind.api.partition('/')[0]}" if "/" in kind.api else kind.plural


def _grace(pod: Object, options: Object) -> int:
    """Seconds until a pod is killed: none where no node has it, or where it has ended."""
    if not pod["spec"].get("nodeName") or pod["status"]["phase"] in ("Succeeded", "Failed"):
        return 0
    asked: int | None = options.get("gracePeriodSeconds")
    return int(pod["spec"]["terminationGracePeriodSeconds"]) if asked is None else asked


def condition(status: Object, type_: str, value: str, reason: str = "", message: str = "", also: Object = _POD) -> bool:
    """Set a condition in place; whether it is new or its value changed. ``also`` is what its kind has beside, and
    when it changed, if by the cluster's own time."""
    conditions = status.setdefault("conditions", [])
    new = {"type": type_, "status": value, "lastTransitionTime": now(), **also}
    new |= {name: text for name, text in (("reason", reason), ("message", message)) if text}
    for at, old in enumerate(conditions):
        if old["type"] == type_:
            changed: bool = old["status"] != value
            conditions[at] = new if changed else old | new | {"lastTransitionTime": old["lastTransitionTime"]}
            return changed
    conditions.append(new)
    return True


def has(item: Object, type_: str, value: str = "True") -> bool:
    conditions = item.get("status", {}).get("conditions", [])
    return any(found["type"] == type_ and found["status"] == value for found in conditions)


def record(objects: Objects, item: Object, reason: str, message: str, component: str, type_: str = "Normal") -> None:
    """An Event about ``item``; a repetition counts one up."""
    meta = item["metadata"]
    about = {"kind": item["kind"], "namespace": meta.get("namespace", ""), "name": meta["name"], "uid": meta["uid"]}
    about |= {"apiVersion": item["apiVersion"], "resourceVersion": meta["resourceVersion"]}
    place = meta.get("namespace", "default")
    with objects.lock:
        for old in objects.list(EVENTS, place, lambda event: event["involvedObject"]["uid"] == meta["uid"]):
            if (old["reason"], old["message"]) == (reason, message):
                objects.update(EVENTS, old | {"count": old["count"] + 1, "lastTimestamp": now()})
                return
        event = {"involvedObject": about, "reason": reason, "message": message, "type": type_, "count": 1}
        event |= {"source": {"component": component}, "firstTimestamp": now(), "lastTimestamp": now()}
        event |= {"eventTime": None, "reportingComponent": component, "reportingInstance": ""}
        event["metadata"] = {"name": f"{meta['name']}.{uuid.uuid4().hex[:16]}"}
        objects.create(EVENTS, place, event)
