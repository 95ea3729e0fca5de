"""The versions in which a Kueue serves its objects. They are kept as ``v1beta2``; ``v1beta1`` is another spelling."""

from typing import Any

from tests.cluster.objects import KUEUE, Object

GROUP, NEWEST = KUEUE.split("/")
OLD = f"{GROUP}/v1beta1"
BOTH = ("v1beta2", "v1beta1")
_SOURCE = "kueue.x-k8s.io/workloadpriorityclass"


def kept(body: Object) -> Object:
    """An object, or a patch of one, that came as ``v1beta1``."""
    spec = dict(body.get("spec") or {})
    if "cohort" in spec:
        spec["cohortName"] = spec.pop("cohort")
    if "priorityClassName" in spec:
        spec.pop("priorityClassSource", None)
        name = spec.pop("priorityClassName")
        spec["priorityClassRef"] = {"group": GROUP, "kind": "WorkloadPriorityClass", "name": name}
    return {**body, **({"apiVersion": KUEUE} if "apiVersion" in body else {}), **({"spec": spec} if spec else {})}


def shown(body: Any) -> Any:
    """An answer as ``v1beta1``: an object, or a list of them."""
    if not isinstance(body, dict) or body.get("apiVersion") != KUEUE:
        return body
    if "items" in body:
        return {**body, "apiVersion": OLD, "items": [shown(item) for item in body["items"]]}
    spec = dict(body.get("spec") or {})
    if "cohortName" in spec:
        spec["cohort"] = spec.pop("cohortName")
    if reference := spec.pop("priorityClassRef", None):
        spec |= {"priorityClassName": reference["name"], "priorityClassSource": _SOURCE}
    return {**body, "apiVersion": OLD, **({"spec": spec} if "spec" in body else {})}
