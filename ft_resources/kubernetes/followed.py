"""An attempt's Job as a waiting process follows it: news of it, and its pods' status when that matters."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ft_resources.attempts import Attempt
from ft_resources.kubernetes import names
from ft_resources.kubernetes.api import Api, jobs, pods
from ft_resources.kubernetes.endings import (
    PodEnding,
    Sight,
    asks_last_beat,
    asks_whether_begun,
    asks_why_evicted,
    ending_of,
    queued_again,
)
from ft_resources.kubernetes.kueue_api import workload_of
from ft_resources.kubernetes.objects import Object, condition, ended
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.kubernetes.watched import JobWatch, WatchedNamespace


@dataclass(kw_only=True)
class FollowedJob:
    """The Job of ``attempt`` in the namespace that ``watched`` watches.

    Args:
        clock: seconds since the epoch.
        look_every_s: minimum seconds between listings of troubled pods.
        launched: whether the attempt's launch is on record; ``spot`` and ``own_image`` come with it.
        begun: whether its worker has sent a heartbeat, as of the last check.
        last_pods: last known state of all pods, including deleted ones.
        ending: how they ended, once known.
    """

    api: Api
    attempt: Attempt
    watched: WatchedNamespace
    settings: KubernetesSettings
    clock: Callable[[], float]
    look_every_s: float
    launched: bool = False
    begun: bool = False
    spot: bool = False
    own_image: bool = False
    last_pods: Sequence[Object] = ()
    ending: PodEnding | None = None
    watch: JobWatch = field(init=False)
    _looked_at: float = field(default=float("-inf"), init=False)
    _looked_version: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.watch = self.watched.follow(self.name)

    @property
    def namespace(self) -> str:
        return self.watched.namespace

    @property
    def name(self) -> str:
        return names.job_name(self.attempt.address, self.attempt.number)

    @property
    def path(self) -> str:
        return jobs(self.namespace, self.name)

    def know_launch(self, handle: dict[str, Any]) -> None:
        """Read what the attempt's launch recorded."""
        self.launched, self.spot, self.own_image = True, handle["spot"], handle["own_image"]

    def find_ending(self, *, patient: bool = True) -> PodEnding | None:
        """How the attempt's pods ended, listing them if the Job's status is not enough.

        The result is kept: the evidence disappears soon after.
        """
        if self.ending is not None:
            return self.ending
        job = self.watch.job
        if job is not None and self._should_look(job, patient):
            self._looked_at, self._looked_version = time.monotonic(), job["metadata"]["resourceVersion"]
            self.last_pods = merged(self.last_pods, self.list_pods())
        sight = Sight(
            job=job,
            pods=self.last_pods,
            begun=self.begun,
            spot=self.spot,
            own_image=self.own_image,
            now=self.clock(),
            queue_timeout_s=self.settings.queue_timeout_s,
            image_pull_timeout_s=self.settings.image_pull_timeout_s,
        )
        if job is not None and not self.begun and asks_whether_begun(sight):
            self.begun = bool(self.attempt.progress())
            sight = replace(sight, begun=self.begun)
        if job is not None and not self.begun and queued_again(job):
            # Kueue took its place before the worker started, and starts it again with new pods. The old pods say
            # nothing about how the new ones will end, and the time in the queue does not count.
            self.last_pods, sight = (), replace(sight, pods=())
        if job is not None and asks_why_evicted(sight):
            workload = workload_of(self.api, self.namespace, job) or {}
            sight = replace(sight, evicted=(condition(workload, "Evicted") or {}).get("reason", ""))
        if asks_last_beat(sight) and self.attempt.ending() is None:
            sight = replace(sight, last_beat=self.attempt.progress().get("at"))
        self.ending = ending_of(sight)
        return self.ending

    def list_pods(self) -> Sequence[Object]:
        """The current pods, in a single request."""
        return self.api.items(pods(self.namespace), names.of_job(self.name), patient=False)

    def wait_gone(self, seconds: float) -> Sequence[Object]:
        """Wait until the Job is gone or time is up; the last known state of its pods."""
        seen: Sequence[Object] = ()
        deadline, pause_s = time.monotonic() + seconds, 0.2
        while True:
            seen = merged(seen, self.list_pods())
            if self.api.get(self.path) is None or time.monotonic() >= deadline:
                return seen
            time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))
            pause_s = min(1.5 * pause_s, 5.0)

    def _should_look(self, job: Object, patient: bool) -> bool:
        """Whether to list the pods: at once when the Job ended, now and then when in trouble, otherwise never."""
        status, fresh = job.get("status", {}), job["metadata"]["resourceVersion"] != self._looked_version
        if ended(job):
            return fresh
        troubled = status.get("terminating") or status.get("active", 0) > status.get("ready", 0)
        due = time.monotonic() - self._looked_at >= self.look_every_s
        return bool(troubled) and (due or (not patient and fresh))


def merged(before: Sequence[Object], now: Sequence[Object]) -> list[Object]:
    """Last known state of all pods, including deleted ones."""
    return list({pod["metadata"]["uid"]: pod for pod in [*before, *now]}.values())
