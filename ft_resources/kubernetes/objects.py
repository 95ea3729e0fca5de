"""Conditions, times and container statuses of API objects (plain dicts)."""

from datetime import datetime
from typing import Any

Object = dict[str, Any]


def name_of(manifest: Object) -> str:
    """Such as ``Namespace ft-acme`` or ``ConfigMap ft-acme/ft-admission``."""
    metadata = manifest["metadata"]
    return " ".join([manifest["kind"], "/".join(filter(None, [metadata.get("namespace"), metadata["name"]]))])


def condition(item: Object, kind: str, status: str = "True") -> Object | None:
    """The condition ``kind`` of an object if its status is ``status`` (true by default)."""
    conditions = item.get("status", {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind and each["status"] == status), None)


def ended(job: Object) -> bool:
    """Whether a Job is complete or failed."""
    return condition(job, "Complete") is not None or condition(job, "Failed") is not None


def seconds(moment: str | None) -> float | None:
    """An API timestamp in seconds since the epoch."""
    return datetime.fromisoformat(moment).timestamp() if moment else None


def containers(pod: Object) -> list[Object]:
    """The statuses of a pod's containers, init containers first."""
    status = pod.get("status", {})
    return [each for kind in ("initContainerStatuses", "containerStatuses") for each in status.get(kind) or []]
