"""The record of an ended attempt's pods: the basis of billing, refunds and the next attempt.

``place.json`` of an attempt, create-only: the first process that cleans up writes it; the pods are deleted soon after.
"""

from collections.abc import Sequence

from ft_resources.attempts import BEAT_MARGIN_S, PLACE, Attempt
from ft_resources.kubernetes import names
from ft_resources.kubernetes.api import Api, jobs, pods
from ft_resources.kubernetes.causes import SPOT_LOSSES
from ft_resources.kubernetes.endings import PodEnding
from ft_resources.kubernetes.objects import Object, condition, containers, seconds
from ft_resources.kubernetes.pod import FETCH
from ft_resources.outcomes import Refund


def record_place(
    attempt: Attempt,
    job: Object,
    pods: Sequence[Object],
    ending: PodEnding | None,
    *,
    cause: str,
    refund: Refund,
    now: float,
) -> None:
    """Record where and when an attempt ran, how it ended, and the evidence from the API's objects.

    ``cause`` is a ``Cause``, or ``cancelled`` or ``resized`` where the platform itself stopped it.
    ``started_at`` and ``ended_at`` are those of its pods, in seconds since the epoch; null if none started. If the pods
    are gone, a worker without heartbeat counts as not started, and one with heartbeats as ended soon after the last.
    """
    beat = attempt.progress().get("at")
    started = started_at(job, pods) if pods or beat is not None else None
    spec = job["spec"]["template"]["spec"]
    worker = spec["containers"][0]
    limits = worker.get("resources", {}).get("limits", {})
    attempt.store.create_json(
        f"{attempt.path}/{PLACE}",
        {
            "launcher": "kubernetes",
            "namespace": job["metadata"]["namespace"],
            "job": job["metadata"]["name"],
            "cause": cause,
            "refund": refund,
            "exit_code": ending.exit_code if ending else None,
            "capacity": job["metadata"].get("annotations", {}).get(names.CAPACITY),
            "nodes": job["spec"].get("completions", 1),
            "devices": {name: int(count) for name, count in limits.items() if "/" in name},
            "queued_at": seconds(job["metadata"].get("creationTimestamp")),
            "moments": _moments(job, pods),
            "started_at": started,
            "ended_at": None if started is None else _ended_at(job, pods, beat, now),
            "evidence": {
                "job": job.get("status", {}).get("conditions", []),
                "pods": [_evidence(pod) for pod in pods],
            },
        },
    )


def discard(api: Api, attempt: Attempt, job: Object, refund: Refund, now: float) -> None:
    """Record the place of an attempt that the platform itself stopped, and remove its Job without waiting: the evidence
    disappears with it, its pods keep their grace period."""
    namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
    found = api.items(pods(namespace), names.of_job(name))
    record_place(attempt, job, found, None, cause=attempt.stopped_as(), refund=refund, now=now)
    api.delete(jobs(namespace, name), propagationPolicy="Background")


def lost_spot(attempt: Attempt) -> bool:
    """Whether the attempt lost a spot node."""
    place = attempt.place() or {}
    return place.get("capacity") == "spot" and place.get("cause") in {str(cause) for cause in SPOT_LOSSES}


def started_at(job: Object, pods: Sequence[Object]) -> float | None:
    """When the first pod was scheduled to a node; None if none was."""
    moments = [seconds(pod.get("status", {}).get("startTime")) for pod in pods]
    known = [moment for moment in moments if moment is not None]
    if known:
        return min(known)
    return None if pods else seconds(job.get("status", {}).get("startTime"))


def _moments(job: Object, pods: Sequence[Object]) -> dict[str, float | None]:
    """When waits ended, of several pods the last one's; named as in ``first_step.MOMENTS``."""
    scheduled = [condition(pod, "PodScheduled") for pod in pods]
    statuses = [each for pod in pods for each in containers(pod) if each["name"] == FETCH]
    fetches = [each.get("state", {}).get("terminated") or {} for each in statuses]
    found = {
        "admitted": [job.get("status", {}).get("startTime")],
        "scheduled": [each.get("lastTransitionTime") for each in scheduled if each],
        "pulled": [each.get("startedAt") for each in fetches],
        "fetched": [each.get("finishedAt") for each in fetches],
    }
    known = {name: [at for each in times if (at := seconds(each)) is not None] for name, times in found.items()}
    return {name: max(times, default=None) for name, times in known.items()}


def _ended_at(job: Object, pods: Sequence[Object], beat: float | None, now: float) -> float:
    moments = [
        seconds(each["state"]["terminated"].get("finishedAt"))
        for pod in pods
        for each in pod.get("status", {}).get("containerStatuses") or []
        if each.get("state", {}).get("terminated")
    ]
    known = [moment for moment in moments if moment is not None]
    if known:
        return max(known)
    last = condition(job, "Failed") or condition(job, "Complete")
    told = (seconds(last.get("lastTransitionTime")) if last else None) or now
    # This may run hours after the end.
    return told if beat is None else min(told, float(beat) + BEAT_MARGIN_S)


def _evidence(pod: Object) -> Object:
    status = pod.get("status", {})
    return {
        "name": pod["metadata"]["name"],
        "node": pod["spec"].get("nodeName"),
        "deleted_at": pod["metadata"].get("deletionTimestamp"),
        "phase": status.get("phase"),
        "reason": status.get("reason"),
        "message": status.get("message"),
        "disruption": condition(pod, "DisruptionTarget"),
        "containers": [{"name": each["name"], "state": each.get("state")} for each in containers(pod)],
    }
