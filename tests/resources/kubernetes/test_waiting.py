"""Why a Job waits, from what Kueue, the scheduler and the kubelet say (their messages as they are)."""

import pytest

from ft_resources.kubernetes.job_plan import plan_pod
from ft_resources.kubernetes.manifests import job as job_manifest
from ft_resources.kubernetes.waiting import why_waiting
from tests.resources.kubernetes.specs import settings_of, spec_of


def queued() -> dict:
    return job_manifest(plan_pod(spec_of(), settings_of(queue="ft-{tenant}")))


def workload(reason: str, message: str, **conditions: str) -> dict:
    refused = {"type": "QuotaReserved", "status": "False", "reason": reason, "message": message}
    others = [{"type": kind, "status": "True", "message": text} for kind, text in conditions.items()]
    return {"spec": {}, "status": {"conditions": [refused, *others]}}


TAINTED = "untolerated taint {nvidia.com/gpu present NoSchedule <nil>} in flavor h100-on-demand"
NO_GPUS = "insufficient quota for nvidia.com/gpu in flavor cpu, request > maximum capacity (1 > 0)"
TOO_SMALL = "insufficient quota for memory in flavor l4, request > maximum capacity (900Gi > 768Gi)"
BOTH = (
    "insufficient unused quota for memory in flavor h100, 9Gi more needed, insufficient quota for nvidia.com/gpu in "
    "flavor h100, previously considered podsets requests (8) + current podset request (8) > maximum capacity (8)"
)
SHORT = "insufficient unused quota for nvidia.com/gpu in flavor h100, 2 more needed"


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (None, "kueue_silent"),
        (workload("Misconfigured", "LocalQueue ft-acme doesn't exist"), "queue_name"),
        (workload("Inadmissible", "LocalQueue ft-acme doesn't exist"), "queue_name"),
        (workload("Misconfigured", "ClusterQueue pool doesn't exist"), "queue_missing"),
        (workload("Inadmissible", "ClusterQueue pool is inactive"), "queue_missing"),
        (workload("Pending", SHORT), "quota"),
        (workload("Pending", SHORT, Evicted="Preempted to accommodate a workload"), "preempted"),
        (workload("Pending", f"{SHORT}. Pending the preemption of 1 workload(s)"), "priority"),
        (
            workload("Pending", "insufficient quota for gpu in flavor f, request > maximum capacity (9 > 8)"),
            "too_large",
        ),
        (workload("Pending", "flavor spot doesn't match node affinity"), "flavour"),
        (workload("NoMatchingFlavor", f"{TAINTED}, {NO_GPUS}"), "taint"),
        (workload("ExceedsMaxQuota", f"{TAINTED}, {NO_GPUS}"), "taint"),
        (workload("Pending", f"{TAINTED}, {TOO_SMALL}"), "taint"),
        (workload("Pending", f"{SHORT}, {TAINTED}, {NO_GPUS}"), "quota"),
        (workload("Pending", f"{SHORT}, {TAINTED}, {NO_GPUS}. Pending the preemption of 1 workload(s)"), "priority"),
        (workload("Pending", NO_GPUS), "flavour"),
        (workload("Pending", f"{TOO_SMALL}, {NO_GPUS}"), "too_large"),
        (workload("Pending", f"{BOTH}, {NO_GPUS}"), "too_large"),
        (workload("Pending", "resource amd.com/gpu unavailable in ClusterQueue"), "flavour"),
        ({"spec": {"active": False}, "status": {}}, "held"),
        ({"spec": {}, "status": {}}, "quota"),
    ],
)
def test_a_queued_job_says_why(found: dict | None, reason: str) -> None:
    assert why_waiting(queued(), found).reason == reason


def test_a_taint_is_told_with_its_flavour_and_never_as_too_large() -> None:
    waiting = why_waiting(queued(), workload("ExceedsMaxQuota", f"couldn't assign: {TAINTED}, {NO_GPUS}"))
    assert "h100-on-demand has the taint nvidia.com/gpu=present:NoSchedule" in waiting.what
    assert "cpu" not in waiting.what
    assert "gpu_types" in waiting.remedy
    both = why_waiting(queued(), workload("ExceedsMaxQuota", f"{TAINTED}, {TOO_SMALL}"))
    assert "l4 can never have as much" in both.what


def test_a_taint_without_a_value_is_read() -> None:
    bare = "untolerated taint {dedicated  NoExecute <nil>} in flavor a"
    assert "a has the taint dedicated=:NoExecute" in why_waiting(queued(), workload("Pending", bare)).what


def test_a_wrong_queue_name_is_told_though_kubernetes_tells_the_creator_nothing() -> None:
    waiting = why_waiting(queued(), workload("Misconfigured", "LocalQueue ft-acme doesn't exist"))
    assert "ft-acme" in waiting.what
    assert waiting.remedy


def test_a_started_job_says_what_its_pods_lack() -> None:
    job = {**queued(), "status": {"active": 1}}
    job["spec"]["suspend"] = False
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    pod = {"status": {"conditions": [unschedulable]}}
    assert why_waiting(job, None, [pod]).reason == "unschedulable"
    pulling = {"status": {"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}}
    assert why_waiting(job, None, [pulling]).reason == "image"
    refused = {"reason": "FailedCreate", "message": "exceeded quota"}
    assert why_waiting(job, None, [], [refused]).said == "exceeded quota"
    assert why_waiting(job, None).reason == "starting"
    job["status"]["ready"] = 1
    assert why_waiting(job, None).reason == "running"


def test_a_job_that_is_gone_or_held_by_hand_is_told() -> None:
    assert why_waiting(None, None).reason == "gone"
    held = job_manifest(plan_pod(spec_of(), settings_of()))
    held["spec"]["suspend"] = True
    assert why_waiting(held, None).reason == "held"
