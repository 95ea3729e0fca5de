"""What the API's objects say of themselves: conditions, times, containers. Plain dicts, as the API has them."""

from datetime import datetime
from typing import Any

Object = dict[str, Any]


def condition(item: Object, kind: str, status: str = "True") -> Object | None:
    """The condition ``kind`` of an object where it is true, or as ``status`` says."""
    conditions = item.get("status", {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind and each["status"] == status), None)


def ended(job: Object) -> bool:
    """Whether a Job has its last condition."""
    return condition(job, "Complete") is not None or condition(job, "Failed") is not None


def seconds(moment: str | None) -> float | None:
    """A time of the API in seconds since the epoch."""
    return datetime.fromisoformat(moment).timestamp() if moment else None


def containers(pod: Object) -> list[Object]:
    """The statuses of a pod's containers, those that prepare it first."""
    status = pod.get("status", {})
    return [each for kind in ("initContainerStatuses", "containerStatuses") for each in status.get(kind) or []]
