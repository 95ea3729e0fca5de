"""Why Kueue does not start, or took back, work that has had its quota: its nodes are not made yet, or its pods did not
start in time. Pure.

https://kueue.sigs.k8s.io/docs/concepts/admission_check/, https://kueue.sigs.k8s.io/docs/tasks/manage/setup_wait_for_pods_ready/.
"""

from collections.abc import Sequence

from ft_resources.kubernetes.kueue_nodes import PROVISION
from ft_resources.kubernetes.objects import Object, condition
from ft_resources.waiting import Waiting

PODS_READY_TIMEOUT = "PodsReadyTimeout"
"""Kueue's reason for an eviction whose pods were not all ready in time."""
_CHECK, _LIMIT = "AdmissionCheck", "RequeuingLimitExceeded"
_GAVE_UP = ", and Kueue gave up"
_ACTIVATE = "Then set spec.active of the Workload to true, or submit the work again."


def held_back(workload: Object) -> Waiting | None:
    """Why ``workload`` does not run though it has, or had, quota; None if it waits for something else."""
    status = workload.get("status", {})
    unmet = [each for each in status.get("admissionChecks") or () if each.get("state") != "Ready"]
    evicted = condition(workload, "Evicted") or {}
    reason, said = evicted.get("reason", ""), evicted.get("message", "")
    if workload.get("spec", {}).get("active") is False:
        return _given_up(unmet, reason, said)
    if condition(workload, "QuotaReserved") is not None:
        return _asked(unmet) if unmet else None
    again = status.get("requeueState") or {}
    refused = condition(workload, "QuotaReserved", "False") or {}
    if not again.get("requeueAt") and refused.get("message") != said:
        # Its delay is over, and the queue says what it waits for.
        return None
    at = f", and Kueue tries again at {again['requeueAt']}" if again.get("requeueAt") else ""
    if reason == PODS_READY_TIMEOUT:
        return _not_ready(f" ({again.get('count') or 1} so far){at}", said)
    if reason == _CHECK:
        return Waiting(reason="provisioning", what=f"{_refused(unmet)}{at}", said=_words(unmet) or said)
    return None


def _given_up(unmet: Sequence[Object], reason: str, said: str) -> Waiting:
    rejected = [each for each in unmet if each.get("state") == "Rejected"]
    if rejected or _CHECK in reason:
        remedy = f"Look at the autoscaler's limits and log. {_ACTIVATE}"
        what = f"{_refused(rejected or unmet)}{_GAVE_UP}"
        return Waiting(reason="provisioning", what=what, remedy=remedy, said=_words(rejected) or said)
    if _LIMIT in reason:
        return _not_ready(_GAVE_UP, said, _ACTIVATE)
    remedy = "Kueue or a person deactivated it: set spec.active of the Workload, or submit the work again."
    return Waiting(reason="held", what="its Workload was deactivated", remedy=remedy, said=said)


def _asked(unmet: Sequence[Object]) -> Waiting:
    others = ", ".join(each["name"] for each in unmet if not each["name"].startswith(PROVISION))
    what = f"the admission check {others} has not passed it" if others else "nodes are being made for it"
    return Waiting(reason="provisioning", what=f"its quota is reserved, and {what}", said=_words(unmet))


def _refused(unmet: Sequence[Object]) -> str:
    others = ", ".join(each["name"] for each in unmet if not each["name"].startswith(PROVISION))
    return f"the admission check {others} refused it" if others else "nodes for it could not be made"


def _not_ready(more: str, said: str, then: str = "") -> Waiting:
    remedy = (
        "Its pods may wait for a node, an image or inputs: see their events. If they need longer, raise `timeout` of "
        "`waitForPodsReady` in Kueue's configuration."
    )
    what = f"not all of its pods were ready in the time that Kueue gives them{more}"
    return Waiting(reason="pods_not_ready", what=what, remedy=" ".join(filter(None, [remedy, then])), said=said)


def _words(checks: Sequence[Object]) -> str:
    return "; ".join(each["message"] for each in checks if each.get("message"))
