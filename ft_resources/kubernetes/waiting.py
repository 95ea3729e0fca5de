"""Why a Job waits, in words for who asked for it. Pure over the Job, its Workload, its pods and their events.

Kubernetes itself does not tell: a suspended Job looks the same whether its quota is used up, its queue's name is wrong,
or Kueue is not there. Kueue writes the reason into the Workload
(https://kueue.sigs.k8s.io/docs/concepts/workload/), the scheduler into the pod.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ft_resources.kubernetes import names
from ft_resources.kubernetes.objects import Object, condition, containers, ended

Reason = Literal[
    "running", "ended", "queue_name", "queue_missing", "too_large", "quota", "priority", "preempted", "flavour", "held",
    "unschedulable", "pods_refused", "image", "starting", "kueue_silent", "gone",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """Why a Job is not running: a word to count by, a sentence, what to do (empty: wait), and the cluster's words."""

    reason: Reason
    what: str
    remedy: str = ""
    said: str = ""


_MISSING = "doesn't exist"


def why_waiting(
    job: Object | None, workload: Object | None, pods: Sequence[Object] = (), events: Sequence[Object] = ()
) -> Waiting:
    """Why ``job`` waits, as far as its Workload (None: there is none), pods and events (of the Job) say."""
    if job is None:
        return Waiting(reason="gone", what="its Job is not on the cluster (any more)")
    if ended(job):
        return Waiting(reason="ended", what="its Job has ended")
    if job["spec"].get("suspend"):
        return _queued(job, workload)
    status = job.get("status", {})
    if status.get("ready"):
        return Waiting(reason="running", what="its pods run")
    for pod in pods:
        if (found := _of_pod(pod)) is not None:
            return found
    refused = [event for event in events if event.get("reason") == "FailedCreate"]
    if refused and not pods:
        return Waiting(
            reason="pods_refused",
            what="the cluster does not let its pods be created",
            remedy="Ask the platform's administrators: a quota or a policy of the tenant's namespace is in the way.",
            said=refused[-1].get("message", ""),
        )
    return Waiting(reason="starting", what="its pods are being started")


def _queued(job: Object, workload: Object | None) -> Waiting:
    queue = job["metadata"].get("labels", {}).get(names.QUEUE)
    if queue is None:
        return Waiting(
            reason="held",
            what="its Job is suspended and in no queue",
            remedy="Somebody suspended it by hand; resume or delete it with kubectl.",
        )
    if workload is None:
        return Waiting(
            reason="kueue_silent",
            what="Kueue has not taken notice of its Job",
            remedy="Where this lasts, Kueue is not running, or does not manage this namespace.",
        )
    if workload.get("spec", {}).get("active") is False:
        return Waiting(
            reason="held",
            what="its Workload was deactivated",
            remedy="Kueue gave it up, or somebody did: set spec.active of the Workload, or ask for the work again.",
        )
    refused = condition(workload, "QuotaReserved", "False") or {}
    said, reason = refused.get("message", ""), refused.get("reason", "")
    evicted = condition(workload, "Evicted")
    if reason == "Misconfigured" or _MISSING in said or "is inactive" in said:
        return _misconfigured(queue, said)
    if "maximum capacity" in said or reason == "ExceedsMaxQuota":
        return Waiting(
            reason="too_large",
            what="it asks for more than its queue can ever have",
            remedy="Use fewer or other GPUs in a new recipe version, or have the quota raised.",
            said=said,
        )
    if "preemption" in said.lower() or reason == "WaitingForPreemptedWorkloads":
        return Waiting(reason="priority", what="work of a lower priority is being stopped for it", said=said)
    if "insufficient" in said or reason == "WaitingForQuota":
        what = "its place was taken by work of a higher priority" if evicted else "the quota of its queue is in use"
        return Waiting(reason="preempted" if evicted else "quota", what=what, said=said)
    if "affinity" in said or "flavor" in said or "unavailable in ClusterQueue" in said:
        return Waiting(
            reason="flavour",
            what="no kind of node in its queue fits what it asks for",
            remedy="Look whether the queue has this GPU type, and spot or on-demand nodes as asked for.",
            said=said,
        )
    if evicted is not None:
        return Waiting(reason="preempted", what="its place was taken", said=evicted.get("message", ""))
    return Waiting(reason="quota", what="it waits for its turn in the queue", said=said)


def _misconfigured(queue: str, said: str) -> Waiting:
    if "LocalQueue" in said:
        return Waiting(
            reason="queue_name",
            what=f"its namespace has no queue {queue!r}",
            remedy="Correct `queue` of the cluster's settings, or make the LocalQueue of this name.",
            said=said,
        )
    return Waiting(
        reason="queue_missing",
        what=f"the ClusterQueue behind queue {queue!r} is not there or not active",
        remedy="Make the ClusterQueue and its flavours (docs/kubernetes.md), or point the LocalQueue to another.",
        said=said,
    )


def _of_pod(pod: Object) -> Waiting | None:
    scheduled = condition(pod, "PodScheduled", "False")
    if scheduled is not None and scheduled.get("reason") == "Unschedulable":
        return Waiting(
            reason="unschedulable",
            what="no node has room for its pods",
            remedy="Nodes may be on their way; if not, look whether the cluster has such GPUs and as much memory.",
            said=scheduled.get("message", ""),
        )
    for each in containers(pod):
        waiting = (each.get("state") or {}).get("waiting") or {}
        if "Image" in waiting.get("reason", "") or waiting.get("reason") == "RegistryUnavailable":
            return Waiting(
                reason="image",
                what="its image cannot be fetched",
                remedy="Check that the image of this digest is in the registry and that the nodes may read it.",
                said=waiting.get("message", ""),
            )
    return None
