"""What is done to an object on its way in: defaults, refusals, patches; and selectors, which choose on the way out."""

import copy
import re
import uuid
from typing import Any

from tests.cluster.containers import canonical
from tests.cluster.kueue_schemas import faults
from tests.cluster.objects import (
    CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    KUEUE,
    LOCAL_QUEUES,
    MONITORING,
    NAMESPACES,
    PODS,
    QUOTAS,
    SERVICE_ACCOUNTS,
    ApiError,
    Kind,
    Match,
    Object,
    Objects,
    invalid,
)

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
_JOBS, _QUEUE = "count/jobs.batch", "kueue.x-k8s.io/queue-name"
TRACKING = "batch.kubernetes.io/job-tracking"
_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]


def admit(objects: Objects, kind: Kind, namespace: str, body: Object) -> Object:
    """The object as it is stored. Raises ApiError for what a server refuses."""
    item = copy.deepcopy(body)
    meta = item.setdefault("metadata", {})
    if not kind.namespaced:
        # As Kustomize writes it into kinds that it does not know.
        meta.pop("namespace", None)
    if meta.get("namespace", namespace) != namespace:
        raise ApiError(400, "BadRequest", "the namespace of the provided object does not match the request")
    if body.get("apiVersion", kind.api) != kind.api or body.get("kind", kind.name) != kind.name:
        raise ApiError(
            400, "BadRequest", f"{body.get('apiVersion')}, {body.get('kind')} is not {kind.api}, {kind.name}"
        )
    if not meta.get("name"):
        raise invalid(kind, "", "metadata.name: Required value: this cluster makes up no names")
    if kind is NAMESPACES:
        meta["finalizers"] = ["kubernetes"]
    if kind is JOBS:
        _count(objects, namespace, meta["name"])
        _job(item)
        _send_away(objects, namespace, item)
    if kind is PODS:
        _pod(objects, namespace, item)
    return item


def _count(objects: Objects, namespace: str, name: str) -> None:
    """Refuse a Job beyond a quota of their number."""
    used = len(objects.list(JOBS, namespace))
    for quota in objects.list(QUOTAS, namespace):
        limit = quota["spec"]["hard"].get(_JOBS)
        if limit is not None and used >= int(limit):
            said = f"requested: {_JOBS}=1, used: {_JOBS}={used}, limited: {_JOBS}={limit}"
            why = f'jobs.batch "{name}" is forbidden: exceeded quota: {quota["metadata"]["name"]}, {said}'
            raise ApiError(403, "Forbidden", why)


def _send_away(objects: Objects, namespace: str, job: Object) -> None:
    """As Kueue's webhook does where MultiKueue checks a Job's queue: nobody runs it here."""
    local = objects.find(LOCAL_QUEUES, namespace, job["metadata"]["labels"].get(_QUEUE, ""))
    queue = objects.find(CLUSTER_QUEUES, "", local["spec"]["clusterQueue"]) if local else None
    rules = (queue or {"spec": {}})["spec"].get("admissionChecksStrategy", {}).get("admissionChecks", [])
    checks = [objects.find(CHECKS, "", rule["name"]) for rule in rules]
    if any(check and check["spec"]["controllerName"] == MULTIKUEUE for check in checks):
        job["spec"]["managedBy"] = MULTIKUEUE


def check_types(kind: Kind, body: Object) -> None:
    """Refuse fields and types that a kind does not have, as a server does that is asked for strict validation."""
    if kind.api == KUEUE:
        if found := faults({"apiVersion": kind.api, "kind": kind.name, **body}):
            raise ApiError(400, "BadRequest", f"strict decoding error: {'; '.join(found)}")
        return
    # Their schemas are their operator's.
    if kind.api == MONITORING:
        return
    import kubernetes_validate

    try:
        kubernetes_validate.validate({"apiVersion": kind.api, "kind": kind.name, **body}, "1.36", strict=True)
    except kubernetes_validate.ValidationError as error:
        raise ApiError(400, "BadRequest", f"strict decoding error: {error.path}: {error.message}") from error


def _job(job: Object) -> None:
    meta, spec = job["metadata"], job["spec"]
    meta["uid"] = uid = str(uuid.uuid4())
    names = {"controller-uid": uid, "job-name": meta["name"]}
    labels = {f"batch.kubernetes.io/{name}": value for name, value in names.items()} | names
    pod, policy = spec["template"]["spec"], spec.get("podFailurePolicy")
    if pod.get("restartPolicy") != "Never":
        raise invalid(JOBS, meta["name"], "spec.template.spec.restartPolicy: this cluster has Never alone")
    if len(pod["containers"]) != 1:
        raise invalid(JOBS, meta["name"], "spec.template.spec.containers: this cluster runs one beside init containers")
    if policy and not policy.get("rules"):
        # As the stored form has no empty lists. The official client cannot read what it then gets.
        policy["rules"] = None
    _defaults(pod)
    spec["template"].setdefault("metadata", {}).setdefault("labels", {}).update(labels)
    meta["labels"] = meta.get("labels") or dict(spec["template"]["metadata"]["labels"])
    spec.setdefault("parallelism", 1)
    if spec.get("completionMode") != "Indexed" or "completions" not in spec:
        raise invalid(JOBS, meta["name"], "spec.completionMode: this cluster has Indexed alone, with completions")
    for field, value in {"backoffLimit": 6, "manualSelector": False, "suspend": False}.items():
        spec.setdefault(field, value)
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    replacement = spec.setdefault("podReplacementPolicy", "Failed" if policy else "TerminatingOrFailed")
    if policy and replacement != "Failed":
        raise invalid(JOBS, meta["name"], "spec.podReplacementPolicy: must be Failed when podFailurePolicy is used")
    job["status"] = {}


def check_change(kind: Kind, old: Object, new: Object) -> None:
    """Refuse what may not change. A Job's template may, in where its pods go, while it is suspended and not started."""
    if kind is not JOBS:
        return
    before, after = copy.deepcopy(old["spec"]), copy.deepcopy(new["spec"])
    for spec in (before, after):
        for field in ("suspend", "parallelism", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"):
            spec.pop(field, None)
        if old["spec"]["suspend"] and "startTime" not in old["status"]:
            for field in ("nodeSelector", "tolerations", "affinity", "schedulingGates"):
                spec["template"]["spec"].pop(field, None)
            for field in ("labels", "annotations"):
                spec["template"]["metadata"].pop(field, None)
    if before != after:
        raise invalid(JOBS, old["metadata"]["name"], "spec.template: Invalid value: field is immutable")


def _pod(objects: Objects, namespace: str, pod: Object) -> None:
    spec = pod["spec"]
    _defaults(spec)
    account = spec.setdefault("serviceAccountName", "default")
    if account != "default" and objects.find(SERVICE_ACCOUNTS, namespace, account) is None:
        why = f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
        raise ApiError(403, "Forbidden", f'pods "{pod["metadata"].get("name", "")}" is forbidden: {why}')
    spec |= {"serviceAccount": account, "priority": 0, "preemptionPolicy": "PreemptLowerPriority"}
    spec.setdefault("enableServiceLinks", True)
    spec["tolerations"] = [*spec.get("tolerations", []), *_TOLERATIONS]
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        limits = container["resources"].get("limits")
        if limits:
            container["resources"]["requests"] = limits | container["resources"].get("requests", {})
    some = any(container["resources"].get("requests") for container in spec["containers"])
    pod["status"] = {"phase": "Pending", "qosClass": "Burstable" if some else "BestEffort"}


def _defaults(spec: Object) -> None:
    """Defaults of a pod spec, in place, as a Job's template has them as well."""
    for name, value in {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
    }.items():
        spec.setdefault(name, value)
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for volume in spec.get("volumes", []):
        if "sizeLimit" in (volume.get("emptyDir") or {}):
            volume["emptyDir"]["sizeLimit"] = canonical(volume["emptyDir"]["sizeLimit"])
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        latest = not re.search(r"[:@][^/]+$", container["image"]) or container["image"].endswith(":latest")
        container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
        for amounts in container.setdefault("resources", {}).values():
            amounts.update({name: canonical(amount) for name, amount in amounts.items()})
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")


def patched(item: Any, patch: Any) -> Any:
    """``item`` after a merge patch (RFC 7386). Without lists, a strategic merge patch is the same."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(item) if isinstance(item, dict) else {}
    for name, value in patch.items():
        result[name] = patched(result.get(name), value)
    return {name: value for name, value in result.items() if value is not None}


def without(before: Any, after: Any) -> Any:
    """A merge patch that takes away what ``before`` has and ``after`` has not."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return {}
    gone: dict[str, Any] = {name: None for name in before if name not in after}
    return gone | {
        name: without(value, after[name]) for name, value in before.items() if isinstance(after.get(name), dict)
    }


def selector(kind: Kind, labels: str, fields: str) -> Match:
    """What ``labelSelector`` and ``fieldSelector`` choose; 400 for a field that the kind cannot be chosen by."""
    tests: list[Match] = [_label(part) for part in labels.split(",") if part]
    for part in filter(None, fields.split(",")):
        path, equal, value = re.fullmatch(r"(.+?)(!=|==?)(.*)", part).groups()  # type: ignore[union-attr]
        if path not in ("metadata.name", "metadata.namespace", *kind.fields):
            raise ApiError(400, "BadRequest", f"field label not supported: {path}")
        tests.append(_field(path, value, equal != "!="))
    return lambda item: all(test(item) for test in tests)


def _at(item: Any, path: str) -> str:
    for name in path.split("."):
        item = item.get(name, "") if isinstance(item, dict) else ""
    return str(item)


def _field(path: str, value: str, wanted: bool) -> Match:
    return lambda item: (_at(item, path) == value) == wanted


def _label(part: str) -> Match:
    def labels(item: Object) -> dict[str, str]:
        return item["metadata"].get("labels") or {}

    if unequal := re.fullmatch(r"([^=!]+)!=(.*)", part):
        return lambda item: labels(item).get(unequal[1]) != unequal[2]
    if equal := re.fullmatch(r"([^=!]+)==?(.*)", part):
        return lambda item: labels(item).get(equal[1]) == equal[2]
    return lambda item: part in labels(item)
