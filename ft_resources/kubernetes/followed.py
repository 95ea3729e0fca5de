"""An attempt's Job as a waiting process follows it: one watch, and its pods' status when that matters."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ft_resources.attempts import Attempt
from ft_resources.errors import ClusterUnavailable
from ft_resources.kubernetes import names
from ft_resources.kubernetes.api import Api, ApiRefusal, jobs, pods
from ft_resources.kubernetes.endings import PodEnding, Sight, asks_last_beat, asks_whether_begun, ending_of
from ft_resources.kubernetes.objects import Object, ended
from ft_resources.kubernetes.settings import KubernetesSettings


@dataclass(kw_only=True)
class FollowedJob:
    """The Job of ``attempt`` in ``namespace``.

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
    watch: "JobWatch" = field(init=False)
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
        if job is not None and not self.begun and _queued_again(job):
            # Kueue took its place before the worker started, and starts it again with new pods. The old pods say
            # nothing about how the new ones will end, and the time in the queue does not count.
            self.last_pods, sight = (), replace(sight, pods=())
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


def _queued_again(job: Object) -> bool:
    """Whether a Job is back in its queue, with no pod of an earlier start left."""
    status = job.get("status", {})
    return bool(job["spec"].get("suspend")) and not status.get("active") and not status.get("terminating")


def merged(before: Sequence[Object], now: Sequence[Object]) -> list[Object]:
    """Last known state of all pods, including deleted ones."""
    return list({pod["metadata"]["uid"]: pod for pod in [*before, *now]}.values())


_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 10.0


class JobWatch:
    """Keeps the latest state of a Job, in a thread that ends with the Job or with ``close``.

    ``job`` is None before it exists and after it is removed, ``last`` is its last known state, ``answered`` is whether
    the API has answered. API failures change none of them: they are no evidence about the Job.
    """

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self._api, self._path = api, jobs(namespace)
        self._only = {"fieldSelector": f"metadata.name={name}"}
        self._news = threading.Condition()
        self._closed = threading.Event()
        self.job: Object | None = None
        self.last: Object | None = None
        self.answered = False
        self._thread = threading.Thread(target=self._follow, name=f"watch-{name}", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait for news, at most ``seconds``."""
        with self._news:
            self._news.wait(seconds)

    def wait_answer(self, seconds: float) -> bool:
        """Whether the API has answered, after waiting for that at most ``seconds``."""
        with self._news:
            return self._news.wait_for(lambda: self.answered, seconds)

    def close(self) -> None:
        """Stop following; the thread may take until the next event to end."""
        self._closed.set()

    def _follow(self) -> None:
        version, wait_s = "", _FIRST_WAIT_S
        while not self._over():
            try:
                if not version:
                    version = self._look()
                # Bookmarks come every minute: a silent stream may belong to a server that was restored to a state
                # before ``version``, and stays silent for hours. So silence causes a new listing, as refusals do.
                before, version = version, ""
                for event in self._api.watch(self._path, before, self._only):
                    if not (version := self._take(event)):
                        break
                    wait_s = _FIRST_WAIT_S
                    if self._over():
                        break
            except ConnectionError:
                # The version of the broken stream's last event stays valid; later events are still available.
                pass
            except (ApiRefusal, ClusterUnavailable):
                version = ""
            # A server that ends streams at once, or only sends errors, must not be asked in a tight loop.
            self._closed.wait(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def _look(self) -> str:
        """Read the Job's current state; returns the version to watch from."""
        found = self._api.list(self._path, self._only)
        items = found.get("items") or []
        self._set(items[0] if items else None)
        return str(found["metadata"]["resourceVersion"])

    def _take(self, event: dict[str, Any]) -> str:
        """Process an event; returns the version after it, empty after an error, when the Job must be read again."""
        kind, item = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            return ""
        if kind == "DELETED":
            self._set(None)
        elif kind in ("ADDED", "MODIFIED"):
            self._set(item)
        return str(item["metadata"]["resourceVersion"])

    def _set(self, job: Object | None) -> None:
        with self._news:
            self.job, self.answered = job, True
            self.last = job or self.last
            self._news.notify_all()

    def _over(self) -> bool:
        if self._closed.is_set():
            return True
        return (self.last is not None and self.job is None) or (self.job is not None and ended(self.job))
