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
        (workload("Pending", "resource amd.com/gpu unavailable in ClusterQueue"), "flavour"),
        ({"spec": {"active": False}, "status": {}}, "held"),
        ({"spec": {}, "status": {}}, "quota"),
    ],
)
def test_a_queued_job_says_why(found: dict | None, reason: str) -> None:
    assert why_waiting(queued(), found).reason == reason


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
