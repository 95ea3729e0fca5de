"""Classify how a pod ended.

Pure functions of the Job and its pods as the API shows them. The conditions and their order follow
https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions and
https://kubernetes.io/docs/tasks/job/pod-failure-policy/, and were recorded from a real API server.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ft_resources.kubernetes.causes import MEANINGS, Cause
from ft_resources.kubernetes.held_back import PODS_READY_TIMEOUT
from ft_resources.kubernetes.objects import Object, condition, containers, ended, seconds
from ft_resources.outcomes import EXIT_CODES, POLICIES, Outcome, Refund, outcome_of_exit

_BY_CONDITION = {
    "PreemptionByScheduler": Cause.SCHEDULER_PREEMPTION,
    "DeletionByTaintManager": Cause.NODE_LOST,
    "DeletionByPodGC": Cause.NODE_LOST,
    "EvictionByEvictionAPI": Cause.DRAINED,
    "TerminationByKubelet": Cause.NODE_SHUTDOWN,
}
_BY_EVICTION = {PODS_READY_TIMEOUT: Cause.PODS_NOT_READY, "NodeFailures": Cause.NODE_LOST}
"""By Kueue's reasons; with any other, quota was taken."""
_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"})
_START = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_START_FAILED = frozenset({"StartError", "ContainerCannotRun"})
_START_CODE = 128
"""Exit code that container runtimes give a container whose process never ran; no process of ours ends with it."""
_NO_PROGRAM = 'exec: "'
"""In the runtime's words if the image lacks the program that it should start."""
_DISRUPTED = "DisruptionTarget"
_EXIT = re.compile(r"failed with exit code (\d+)")
_SILENT_S = 20.0
"""Seconds without a heartbeat (one a second) after which a worker counts as gone before its Job was ended."""
_LOST_S = 30.0
"""Seconds after its grace period at which a terminating pod counts as lost: its kubelet is gone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PodEnding:
    """How the pods of a Job ended."""

    cause: Cause
    outcome: Outcome
    refund: Refund
    what: str = ""
    remedy: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Sight:
    """What is known about an attempt's Job.

    Args:
        job: None if it is gone.
        pods: their last known state.
        begun: whether the worker has sent a heartbeat to the store.
        own_image: whether the recipe named the image.
        evicted: Kueue's reason for an eviction; empty: unknown.
        last_beat: the last heartbeat (seconds since the epoch) of a worker that did not report its end; None: unknown.
        now: seconds since the epoch.
    """

    job: Object | None
    pods: Sequence[Object] = field(default_factory=tuple)
    begun: bool
    spot: bool
    own_image: bool = False
    evicted: str = ""
    last_beat: float | None = None
    now: float
    queue_timeout_s: float
    image_pull_timeout_s: float


def ending_of(sight: Sight) -> PodEnding | None:
    """How the attempt ended, or None while it waits, runs or terminates."""
    if sight.job is None:
        return _ended(_of_pods(sight) or Cause.DELETED, sight)
    if (failed := condition(sight.job, "Failed")) is not None:
        return _of_failure(failed, sight)
    if condition(sight.job, "Complete") is not None:
        return PodEnding(cause=Cause.WORKER, outcome=Outcome.DONE, refund="none", exit_code=0)
    if any(_overdue(pod, sight.now) for pod in sight.pods):
        return _ended(_of_pods(sight) or _of_deletion(sight), sight)
    status = sight.job.get("status", {})
    if asks_why_evicted(sight):
        cause = _BY_EVICTION.get(sight.evicted, Cause.QUEUE_PREEMPTION)
        return _ended(Cause.SPOT_RECLAIMED if sight.spot and cause is Cause.NODE_LOST else cause, sight)
    if not sight.job["spec"].get("suspend") and (stuck := _stuck(sight)) is not None:
        return stuck
    if not sight.begun and not status.get("ready") and _waited_s(sight) > sight.queue_timeout_s:
        return _ended(Cause.QUEUE_TIMEOUT, sight)
    return None


def asks_whether_begun(sight: Sight) -> bool:
    """Whether ``ending_of`` needs ``begun``, which costs a request to the store."""
    if sight.job is None or ended(sight.job):
        return False
    return bool(sight.job["spec"].get("suspend")) or _waited_s(sight) > sight.queue_timeout_s


def asks_why_evicted(sight: Sight) -> bool:
    """Whether Kueue took a place from work that had begun, so that ``ending_of`` needs ``evicted``."""
    if sight.job is None or ended(sight.job):
        return False
    return sight.begun and queued_again(sight.job)


def queued_again(job: Object) -> bool:
    """Whether a Job is back in its queue, with no pod of an earlier start left."""
    status = job.get("status", {})
    return bool(job["spec"].get("suspend")) and not status.get("active") and not status.get("terminating")


def asks_last_beat(sight: Sight) -> bool:
    """Whether ``ending_of`` needs ``last_beat``, which costs requests to the store."""
    failed = condition(sight.job, "Failed") if sight.job else None
    return failed is not None and _DISRUPTED in failed.get("message", "") and _of_pods(sight) is None


def _waited_s(sight: Sight) -> float:
    created = seconds(sight.job["metadata"].get("creationTimestamp")) if sight.job else None
    return sight.now - created if created else 0.0


def _of_failure(failed: Object, sight: Sight) -> PodEnding:
    reason, message = failed.get("reason", ""), failed.get("message", "")
    if reason == "DeadlineExceeded":
        return _ended(Cause.RUN_TIMEOUT, sight)
    if (cause := _of_pods(sight)) is not None:
        return _ended(cause, sight)
    if (refused := _refused_start(sight.pods)) is not None:
        return _ended(Cause.NOT_STARTED, sight, said=refused)
    if _DISRUPTED in message:
        # The pod is gone, and with it the evidence of what deleted it.
        cause = Cause.NODE_LOST if _was_silent(failed, sight.last_beat) else Cause.DISRUPTED
        return _ended(Cause.SPOT_RECLAIMED if sight.spot else cause, sight)
    if (found := _EXIT.search(message)) is not None:
        return _of_exit(int(found[1]), sight)
    code = _exit_code(sight.pods)
    # A pod that was deleted before it started has no exit code, and is gone by now.
    return _of_exit(code, sight) if code is not None else _ended(Cause.STOPPED, sight)


def _was_silent(failed: Object, last_beat: float | None) -> bool:
    """Whether the worker had fallen silent before its Job failed: with its node, as who is evicted lives until its end
    and reports it."""
    at = seconds(failed.get("lastTransitionTime"))
    return last_beat is not None and at is not None and at - last_beat > _SILENT_S


def _of_deletion(sight: Sight) -> Cause:
    """Why a deleted pod still exists: its node does not respond, or it never had a node and awaits collection."""
    return Cause.NODE_LOST if any(pod.get("spec", {}).get("nodeName") for pod in sight.pods) else Cause.STOPPED


def _of_exit(code: int, sight: Sight) -> PodEnding:
    outcome = outcome_of_exit(code)
    if outcome is not Outcome.PREEMPTED:
        refund = POLICIES[outcome].refund
        return PodEnding(cause=Cause.WORKER, outcome=outcome, refund=refund, exit_code=code)
    if code == _START_CODE:
        # Its pod is gone, and with it the runtime's words.
        return _ended(Cause.NOT_STARTED, sight, code)
    asked = any("deletionTimestamp" in pod["metadata"] for pod in sight.pods) or code == EXIT_CODES[Outcome.PREEMPTED]
    return _ended(Cause.STOPPED if asked else Cause.KILLED, sight, code)


def _of_pods(sight: Sight) -> Cause | None:
    """The cause that the pods' own status gives, if any."""
    for pod in sight.pods:
        if (disrupted := condition(pod, "DisruptionTarget")) is not None:
            return _of_disruption(pod, disrupted.get("reason", ""), sight.spot)
        if pod.get("status", {}).get("reason") == "Evicted":
            return _of_disruption(pod, "TerminationByKubelet", sight.spot)
    # After all conditions: when ranks end together, one may be killed because another was asked to stop.
    killed = any(state.get("reason") == "OOMKilled" for pod in sight.pods for state in _ends(pod))
    return Cause.OOM_KILLED if killed else None


def _of_disruption(pod: Object, reason: str, spot: bool) -> Cause:
    status = pod.get("status", {})
    if status.get("reason") == "Evicted":
        return Cause.DISK_LIMIT if "exceeds the limit" in status.get("message", "") else Cause.EVICTED
    cause = _BY_CONDITION.get(reason, Cause.DISRUPTED)
    return Cause.SPOT_RECLAIMED if spot and cause in (Cause.NODE_SHUTDOWN, Cause.NODE_LOST) else cause


def _stuck(sight: Sight) -> PodEnding | None:
    """A pod that cannot start, once that has lasted longer than a brief registry outage."""
    for pod in sight.pods:
        since = seconds(pod.get("status", {}).get("startTime") or pod["metadata"].get("creationTimestamp"))
        if since is None or sight.now - since < sight.image_pull_timeout_s:
            continue
        for state in _states(pod):
            reason = state.get("waiting", {}).get("reason", "")
            if reason in _IMAGE or reason in _START:
                said = f"{reason}: {state['waiting'].get('message', '')}".rstrip(": ")[:500]
                return _ended(Cause.IMAGE_PULL if reason in _IMAGE else Cause.NOT_STARTED, sight, said=said)
    return None


def _refused_start(pods: Sequence[Object]) -> str | None:
    """The container runtime's words on a container that it could not start; None if all were started."""
    for end in (end for pod in pods for end in _ends(pod)):
        if end.get("reason") in _START_FAILED:
            return f"{end['reason']}: {end.get('message', '')}".rstrip(": ")[:500]
    return None


def _overdue(pod: Object, now: float) -> bool:
    """Whether a pod is long past its deletion; its deletionTimestamp is the end of the grace period."""
    if pod.get("status", {}).get("phase") not in ("Pending", "Running"):
        return False
    gone_by = seconds(pod["metadata"].get("deletionTimestamp"))
    return gone_by is not None and now > gone_by + _LOST_S


def _states(pod: Object) -> list[Object]:
    return [each.get("state") or {} for each in containers(pod)]


def _ends(pod: Object) -> list[Object]:
    return [state["terminated"] for state in _states(pod) if state.get("terminated")]


def _exit_code(pods: Sequence[Object]) -> int | None:
    """The first exit code other than 0."""
    return next((int(end["exitCode"]) for pod in pods for end in _ends(pod) if end.get("exitCode")), None)


def _ended(cause: Cause, sight: Sight, exit_code: int | None = None, said: str = "") -> PodEnding:
    meaning = MEANINGS[cause]
    outcome, refund = meaning.outcome, meaning.refund
    lacking = cause is Cause.IMAGE_PULL or (cause is Cause.NOT_STARTED and _NO_PROGRAM in said)
    if lacking and sight.own_image:
        # The platform is responsible for its own image, a recipe's author for the recipe's.
        outcome, refund = Outcome.USER_ERROR, "none"
    if exit_code is None:
        exit_code = _exit_code(sight.pods)
    what = f"{meaning.what} ({said})" if said else meaning.what
    return PodEnding(cause=cause, outcome=outcome, refund=refund, what=what, remedy=meaning.remedy, exit_code=exit_code)
