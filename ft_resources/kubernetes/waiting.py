"""Why a Job waits, explained to its submitter. A pure function of the Job, its Workload, its pods and their events.

Kubernetes itself does not say: a suspended Job looks the same if its quota is used up, if its queue's name is wrong,
or if Kueue is missing. Kueue writes the reason into the Workload
(https://kueue.sigs.k8s.io/docs/concepts/workload/), the scheduler into the pod.
"""

from collections.abc import Sequence

from ft_resources.kubernetes import names
from ft_resources.kubernetes.flavour_words import FlavourWords, read_flavour_words
from ft_resources.kubernetes.held_back import held_back
from ft_resources.kubernetes.objects import Object, condition, containers, ended
from ft_resources.waiting import Reason, Waiting

_MISSING, _PREEMPTED = "doesn't exist", "Preempted"
_HINTS: dict[Reason, tuple[str, str]] = {
    "gone": ("its Job is not on the cluster (any more)", ""),
    "ended": ("its Job has ended", ""),
    "running": ("its pods run", ""),
    "starting": ("its pods are being started", ""),
    "pods_refused": (
        "the cluster does not let its pods be created",
        "Ask the platform's administrators: a quota or a policy of the tenant's namespace prevents it.",
    ),
    "job_quota": (
        "the quota of its namespace has no room for its Job, which is tried again",
        "Other work of the tenant has to end first, or the namespace's ResourceQuota to be raised.",
    ),
    "kueue_silent": (
        "Kueue has not processed its Job yet",
        "If this persists, Kueue is not running or does not manage this namespace.",
    ),
    "queue_name": (
        "its namespace has no queue {queue!r}",
        "Correct `queue` in the cluster's settings, or create the LocalQueue of this name.",
    ),
    "queue_missing": (
        "the ClusterQueue of queue {queue!r} is missing or not active",
        "Create the ClusterQueue and its flavours (docs/start/cluster.md), or point the LocalQueue to another.",
    ),
    "too_large": (
        "it requests more than its queue can ever have",
        "Use fewer or other GPUs in a new recipe version, or have the quota raised.",
    ),
    "priority": ("work of a lower priority is being preempted for it", ""),
    "flavour": (
        "no node type in its queue fits its request",
        "Check that the queue has this GPU type, and spot or on-demand nodes as requested.",
    ),
    "unschedulable": (
        "no node has room for its pods",
        "New nodes may be starting; if not, check that the cluster has such GPUs and enough memory.",
    ),
    "volume": (
        "a folder that its pods need is not on their node",
        "If this persists, this is for the platform's administrators: make the folders of the tenant's cache on each "
        "node (docs/how-to/cluster.md).",
    ),
    "image": (
        "its image cannot be fetched",
        "Check that the image of this digest is in the registry and that the nodes may read it.",
    ),
}


def waits_for_room(said: str) -> Waiting:
    """Why work waits whose Job is refused for now, in the cluster's words ``said``."""
    return _waiting("job_quota", said)


def why_waiting(
    job: Object | None, workload: Object | None, pods: Sequence[Object] = (), events: Sequence[Object] = ()
) -> Waiting:
    """Why ``job`` waits, by its Workload (or None), its pods, and the events of the Job and of its pods."""
    if job is None:
        return _waiting("gone")
    if ended(job):
        return _waiting("ended")
    if job["spec"].get("suspend"):
        return _queued(job, workload)
    if job.get("status", {}).get("ready"):
        return _waiting("running")
    for pod in pods:
        if (found := _of_pod(pod)) is not None:
            return found
    refused = [event for event in events if event.get("reason") == "FailedCreate"]
    if refused and not pods:
        return _waiting("pods_refused", refused[-1].get("message", ""))
    unmounted = [event for event in events if event.get("reason") == "FailedMount"]
    return _waiting("volume", unmounted[-1].get("message", "")) if unmounted else _waiting("starting")


def _waiting(reason: Reason, said: str = "", queue: str = "") -> Waiting:
    what, remedy = _HINTS[reason]
    return Waiting(reason=reason, what=what.format(queue=queue), remedy=remedy, said=said)


def _queued(job: Object, workload: Object | None) -> Waiting:
    queue = job["metadata"].get("labels", {}).get(names.QUEUE)
    if queue is None:
        remedy = "It was suspended by hand; resume or delete it with kubectl."
        return Waiting(reason="held", what="its Job is suspended and not in a queue", remedy=remedy)
    if workload is None:
        return _waiting("kueue_silent")
    if (held := held_back(workload)) is not None:
        return held
    refused = condition(workload, "QuotaReserved", "False") or {}
    said, reason = refused.get("message", ""), refused.get("reason", "")
    evicted = condition(workload, "Evicted")
    if evicted is not None and evicted.get("reason", _PREEMPTED) != _PREEMPTED:
        evicted = None
    if reason == "Misconfigured" or _MISSING in said or "is inactive" in said:
        return _waiting("queue_name" if "LocalQueue" in said else "queue_missing", said, queue)
    words = read_flavour_words(said)
    if not words.busy and "preemption" not in said and (apart := _apart(words, said)) is not None:
        return apart
    if not words.busy and words.tainted:
        return _tainted(words, said)
    if not words.busy and ("maximum capacity" in said or reason == "ExceedsMaxQuota"):
        return _waiting("too_large" if words.small else "flavour", said)
    if "preemption" in said.lower() or reason == "WaitingForPreemptedWorkloads":
        return _waiting("priority", said)
    if "insufficient" in said or reason == "WaitingForQuota":
        what = "it was preempted by work of a higher priority" if evicted else "the quota of its queue is in use"
        return Waiting(reason="preempted" if evicted else "quota", what=what, said=said)
    if "affinity" in said or "flavor" in said or "unavailable in ClusterQueue" in said:
        return _waiting("flavour", said)
    if evicted is not None:
        return Waiting(reason="preempted", what="it was preempted", said=evicted.get("message", ""))
    return Waiting(reason="quota", what="it waits for its turn in the queue", said=said)


def _apart(words: FlavourWords, said: str) -> Waiting | None:
    """What is wrong with where nodes lie: work that could have a flavour but for that."""
    if words.scattered:
        what = f"the free nodes do not lie together as the topology {' or '.join(words.scattered)} has them"
        remedy = "It waits for room in one unit. If none is that large, use fewer nodes in a new recipe version, or "
        remedy += "have `required` of the GPU type's topology taken away."
    elif words.unlabelled:
        what = f"no ready node of its kind has the label {' or '.join(words.unlabelled)}, a level of its topology"
        remedy = "This is for the platform's administrators: label the nodes, or correct `topologies` of the flavours."
    elif words.otherwise and not words.small:
        what = f"{' and '.join(words.otherwise)} has a topology, and its Job does not ask for a level of that"
        remedy = "This is for the platform's administrators: `topology` of the GPU type has to name a level; "
        remedy += "`ft cluster plan` compares the two files."
    else:
        return None
    return Waiting(reason="topology", what=what, remedy=remedy, said=said)


def _tainted(words: FlavourWords, said: str) -> Waiting:
    """Taints come before capacity: a flavour that keeps a Job out may have all the room that it needs."""
    kept_out = ", ".join(f"{flavour} has the taint {taint}" for flavour, taint in words.tainted.items())
    small = f", and {', '.join(words.small)} can never have as much" if words.small else ""
    return Waiting(
        reason="taint",
        what=f"no node type in its queue takes it: {kept_out}, which its pods do not tolerate{small}",
        remedy="Ask for what those nodes are for (spot nodes, GPUs of a type) in a new recipe version. If it does, "
        "this is for the platform's administrators: name the taint under `gpu_types`, `on_demand` or `spot_nodes` of "
        "the cluster's settings.",
        said=said,
    )


def _of_pod(pod: Object) -> Waiting | None:
    scheduled = condition(pod, "PodScheduled", "False")
    if scheduled is not None and scheduled.get("reason") == "Unschedulable":
        return _waiting("unschedulable", scheduled.get("message", ""))
    for each in containers(pod):
        waiting = (each.get("state") or {}).get("waiting") or {}
        if "Image" in waiting.get("reason", "") or waiting.get("reason") == "RegistryUnavailable":
            return _waiting("image", waiting.get("message", ""))
    return None
