"""Why a pod ended, and what each cause means: for retries, for billing, and as a message to the user."""

from dataclasses import dataclass
from enum import StrEnum

from ft_resources.outcomes import Outcome, Refund


class Cause(StrEnum):
    """Why a pod ended; ``WORKER`` if the worker exited by itself and its exit code says how."""

    WORKER = "worker"
    QUEUE_PREEMPTION = "queue_preemption"
    PODS_NOT_READY = "pods_not_ready"
    SCHEDULER_PREEMPTION = "scheduler_preemption"
    SPOT_RECLAIMED = "spot_reclaimed"
    DRAINED = "drained"
    EVICTED = "evicted"
    NODE_SHUTDOWN = "node_shutdown"
    NODE_LOST = "node_lost"
    DISRUPTED = "disrupted"
    DISK_LIMIT = "disk_limit"
    OOM_KILLED = "oom_killed"
    IMAGE_PULL = "image_pull"
    NOT_STARTED = "not_started"
    RUN_TIMEOUT = "run_timeout"
    QUEUE_TIMEOUT = "queue_timeout"
    DELETED = "deleted_by_hand"
    STOPPED = "stopped"
    KILLED = "killed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Meaning:
    """What follows from a cause: the outcome (which decides about a retry), who pays, and the message to the user."""

    outcome: Outcome
    refund: Refund
    what: str
    remedy: str = ""


def _lost_its_place(what: str, refund: Refund = "full") -> Meaning:
    remedy = "No action is needed: the work resumes from its last save."
    return Meaning(outcome=Outcome.PREEMPTED, refund=refund, what=what, remedy=remedy)


def _our_fault(what: str, remedy: str) -> Meaning:
    return Meaning(outcome=Outcome.PLATFORM_ERROR, refund="full", what=what, remedy=remedy)


MEANINGS: dict[Cause, Meaning] = {
    Cause.QUEUE_PREEMPTION: _lost_its_place("Kueue took its quota for work of a higher priority"),
    Cause.PODS_NOT_READY: _lost_its_place("not all of its pods were ready in the time that Kueue gives them"),
    Cause.SCHEDULER_PREEMPTION: _lost_its_place("a pod of a higher priority took its place"),
    Cause.SPOT_RECLAIMED: _lost_its_place("its spot node was reclaimed"),
    Cause.DRAINED: _lost_its_place("its node was drained"),
    Cause.EVICTED: _lost_its_place("its node was short of memory or disk"),
    Cause.NODE_SHUTDOWN: _lost_its_place("its node was shut down"),
    Cause.NODE_LOST: _lost_its_place("its node was lost"),
    Cause.DISRUPTED: _lost_its_place("the cluster evicted it"),
    Cause.DISK_LIMIT: _our_fault(
        "it wrote more to a volume than the volume's limit",
        "Raise scratch_gib or cache.size_gib in the cluster's settings.",
    ),
    Cause.OOM_KILLED: Meaning(
        outcome=Outcome.OUT_OF_MEMORY,
        refund="none",
        what="the kernel killed it, as its host memory was used up",
        remedy="Request more with hardware.memory_gib, or use a smaller micro-batch.",
    ),
    Cause.IMAGE_PULL: _our_fault(
        "its image could not be fetched",
        "Check that the image of this digest is in the registry and that the nodes may read it.",
    ),
    Cause.NOT_STARTED: _our_fault(
        "its container could not be started",
        "Check the secret, the volumes and the image in the cluster's settings, and the GPU driver of its node.",
    ),
    Cause.RUN_TIMEOUT: Meaning(
        outcome=Outcome.TIMED_OUT,
        refund="none",
        what="it ran longer than allowed",
        remedy="Raise run_timeout_s in the cluster's settings; submitted again, the work resumes from its last save.",
    ),
    Cause.QUEUE_TIMEOUT: Meaning(
        outcome=Outcome.TIMED_OUT,
        refund="full",
        what="its pods took longer to start than allowed",
        remedy="Check the reason with `ft status`; raise queue_timeout_s in the cluster's settings, or the quota.",
    ),
    Cause.DELETED: _lost_its_place("its Job was deleted, not by this platform", refund="flagged"),
    Cause.STOPPED: _lost_its_place("it was stopped for a reason that the cluster does not report", refund="flagged"),
    Cause.KILLED: Meaning(
        outcome=Outcome.PREEMPTED, refund="flagged", what="it ended without a reported reason", remedy="Read its log."
    ),
}
"""All but WORKER, whose meaning is its exit code's."""

SPOT_LOSSES = frozenset({Cause.SPOT_RECLAIMED, Cause.DRAINED, Cause.NODE_LOST, Cause.NODE_SHUTDOWN, Cause.DISRUPTED})
"""What counts as a lost node for work on spot nodes: who takes them away drains, shuts down, or just goes."""

UNEXPLAINED = frozenset({Cause.WORKER, Cause.DELETED, Cause.STOPPED, Cause.KILLED})
"""What the platform's own stop looks like from the cluster."""
