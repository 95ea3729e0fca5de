"""Why a Job waits, from what Kueue, the scheduler and the kubelet say (their messages as they are)."""

from typing import Any

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
SCATTERED = (
    'topology "racks" allows to fit only 1 out of 2 pod(s). Total nodes: 2; excluded: resource "nvidia.com/gpu": 1'
)
NOWHERE = 'topology "racks" doesn\'t allow to fit any of 2 pod(s)'
APART = 'Flavor "h100-on-demand" supports only TopologyAwareScheduling'
WITHOUT = 'Flavor "cpu" does not support TopologyAwareScheduling'
LATE = "Exceeded the PodsReady timeout ft-acme/job-x"
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
        (workload("Pending", f"couldn't assign flavors to pod set main: {SCATTERED}"), "topology"),
        (workload("TopologyPlacementFailed", f"{NOWHERE}, {TAINTED}, {WITHOUT}"), "topology"),
        (workload("Pending", f"{SCATTERED}, {SHORT}"), "quota"),
        (workload("Pending", f"{NOWHERE}. Pending the preemption of 1 workload(s)"), "priority"),
        (workload("Pending", f"no topology domains at level: example.com/rack, {WITHOUT}"), "topology"),
        (workload("NoMatchingFlavor", f"{APART}, {NO_GPUS}"), "topology"),
        (workload("NoMatchingFlavor", f"{APART}, {TOO_SMALL}"), "too_large"),
        (workload("NoMatchingFlavor", f"{WITHOUT}, flavor h100 doesn't match node affinity"), "flavour"),
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


def checked(state: str, said: str, name: str = "ft-provision-h100", **more: Any) -> dict[str, Any]:
    """A Workload with one admission check; ``more`` are conditions as (status, reason, message)."""
    told = [
        {"type": kind, "status": status, "reason": reason, "message": message}
        for kind, (status, reason, message) in more.items()
    ]
    checks = [{"name": name, "state": state, "message": said}]
    return {"spec": {}, "status": {"admissionChecks": checks, "conditions": told}}


RESERVED = ("True", "QuotaReserved", "Quota reserved in ClusterQueue ft-acme")


def test_work_that_waits_for_its_nodes_to_be_made_says_so_in_the_autoscalers_words() -> None:
    waiting = why_waiting(queued(), checked("Pending", "Waiting for 2 nodes, ETA 09:10", QuotaReserved=RESERVED))
    assert (waiting.reason, waiting.said) == ("provisioning", "Waiting for 2 nodes, ETA 09:10")
    assert waiting.what == "its quota is reserved, and nodes are being made for it"
    other = why_waiting(queued(), checked("Pending", "", name="budget", QuotaReserved=RESERVED))
    assert "the admission check budget" in other.what
    assert why_waiting(queued(), checked("Ready", "done", QuotaReserved=RESERVED)).reason == "quota"


def test_nodes_that_could_not_be_made_are_told_with_the_next_try_and_the_end_of_all_tries() -> None:
    words = "At least one admission check is false"
    evicted = ("True", "AdmissionCheck", words)
    again = checked("Pending", "no H100 in this zone", Evicted=evicted, QuotaReserved=("False", "Pending", words))
    again["status"]["requeueState"] = {"count": 2, "requeueAt": "2026-11-27T09:10:00Z"}
    waiting = why_waiting(queued(), again)
    assert waiting.what == "nodes for it could not be made, and Kueue tries again at 2026-11-27T09:10:00Z"
    assert waiting.said == "no H100 in this zone"
    over = checked("Rejected", "out of quota", Evicted=("True", "DeactivatedDueToAdmissionCheck", "deactivated"))
    over["spec"] = {"active": False}
    waiting = why_waiting(queued(), over)
    assert (waiting.reason, waiting.said) == ("provisioning", "out of quota")
    assert "gave up" in waiting.what
    assert "spec.active" in waiting.remedy


def test_pods_that_were_not_ready_in_time_are_told_until_their_delay_is_over() -> None:
    late = workload("Pending", LATE)
    late["status"]["conditions"].append(
        {"type": "Evicted", "status": "True", "reason": "PodsReadyTimeout", "message": LATE}
    )
    assert why_waiting(queued(), late).reason == "pods_not_ready"
    late["status"]["requeueState"] = {"count": 3, "requeueAt": "2026-11-27T09:10:00Z"}
    waiting = why_waiting(queued(), late)
    assert "(3 so far), and Kueue tries again at 2026-11-27T09:10:00Z" in waiting.what
    del late["status"]["requeueState"]["requeueAt"]
    late["status"]["conditions"][0]["message"] = SHORT
    waiting = why_waiting(queued(), late)
    assert (waiting.reason, waiting.what) == ("quota", "the quota of its queue is in use"), "nobody preempted it"
    late["spec"]["active"] = False
    late["status"]["conditions"][1]["reason"] = "DeactivatedDueToRequeuingLimitExceeded"
    assert "gave up" in why_waiting(queued(), late).what


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
    unmounted = {"reason": "FailedMount", "message": "hostPath type check failed: /cache/acme is not a directory"}
    waiting = {"status": {"phase": "Pending"}}
    assert why_waiting(job, None, [waiting], [unmounted]).reason == "volume"
    job["status"]["ready"] = 1
    assert why_waiting(job, None).reason == "running"


def test_a_job_that_is_gone_or_held_by_hand_is_told() -> None:
    assert why_waiting(None, None).reason == "gone"
    held = job_manifest(plan_pod(spec_of(), settings_of()))
    held["spec"]["suspend"] = True
    assert why_waiting(held, None).reason == "held"
