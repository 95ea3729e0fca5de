"""An attempt's Job as a waiting process knows it: one watch, and its pods where they may have something to say."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ft_resources.attempts import Attempt
from ft_resources.kubernetes import names
from ft_resources.kubernetes.api import Api, jobs, pods
from ft_resources.kubernetes.endings import PodEnding, Sight, asks_whether_begun, ending_of
from ft_resources.kubernetes.objects import Object, ended
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.kubernetes.watch import JobWatch


@dataclass(kw_only=True)
class FollowedJob:
    """The Job of ``attempt`` in ``namespace``.

    Args:
        clock: seconds since the epoch.
        look_every_s: pods in trouble are listed at most so often.
        launched: whether the attempt says that it was; ``spot`` and ``own_image`` are known with that.
        begun: whether its worker has reported to the store, as far as that was asked.
        last_pods: as they were seen last, also those that are gone by now.
        ending: how they ended, once that is found.
    """

    api: Api
    attempt: Attempt
    namespace: str
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
        self.watch = JobWatch(self.api, self.namespace, self.name)

    @property
    def name(self) -> str:
        return names.job_name(self.attempt.address, self.attempt.number)

    @property
    def path(self) -> str:
        return jobs(self.namespace, self.name)

    def know_launch(self, handle: dict[str, Any]) -> None:
        """Take over what the attempt's launch left for others."""
        self.launched, self.spot, self.own_image = True, handle["spot"], handle["own_image"]

    def find_ending(self, *, patient: bool = True) -> PodEnding | None:
        """How the attempt's pods ended, looking at them where the Job alone does not say.

        Found once, it stays: what made it out is gone soon after.
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
        if job is not None and not self.begun and _queued_again(job):
            # Kueue took its place before the worker came up, and starts it again with other pods. Those that are gone
            # say nothing of how these will end, and the time in the queue is not theirs.
            self.last_pods, sight = (), replace(sight, pods=())
        self.ending = ending_of(sight)
        return self.ending

    def list_pods(self) -> Sequence[Object]:
        """Its pods as they are now, asked for once."""
        return self.api.items(pods(self.namespace), names.of_job(self.name), patient=False)

    def wait_gone(self, seconds: float) -> Sequence[Object]:
        """Wait until the Job is gone, at most so long; its pods as they were seen last."""
        seen: Sequence[Object] = ()
        deadline, pause_s = time.monotonic() + seconds, 0.2
        while True:
            seen = merged(seen, self.list_pods())
            if self.api.get(self.path) is None or time.monotonic() >= deadline:
                return seen
            time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))
            pause_s = min(1.5 * pause_s, 5.0)

    def _should_look(self, job: Object, patient: bool) -> bool:
        """Whether the pods may have something to say: at an end at once, in trouble now and then, else never."""
        status, fresh = job.get("status", {}), job["metadata"]["resourceVersion"] != self._looked_version
        if ended(job):
            return fresh
        troubled = status.get("terminating") or status.get("active", 0) > status.get("ready", 0)
        due = time.monotonic() - self._looked_at >= self.look_every_s
        return bool(troubled) and (due or (not patient and fresh))


def _queued_again(job: Object) -> bool:
    """Whether a Job waits in its queue, and no pod of an earlier start is left."""
    status = job.get("status", {})
    return bool(job["spec"].get("suspend")) and not status.get("active") and not status.get("terminating")


def merged(before: Sequence[Object], now: Sequence[Object]) -> list[Object]:
    """Pods as they were seen last, also those that are gone by now."""
    return list({pod["metadata"]["uid"]: pod for pod in [*before, *now]}.values())
