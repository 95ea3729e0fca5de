"""Jobs of a namespace as the process that waits for them sees them: one watch, however many they are.

The right to watch is given by namespace (``k8s/kustomize/base/rbac.yaml``), so each has a watch of its own. A single
Job is watched by its name: a run that waits for one must not be told what becomes of all the others. With a second one
the watch is of all Jobs of the platform there.
"""

import threading
from contextlib import closing
from itertools import islice
from typing import Any
from weakref import WeakValueDictionary

from ft_resources.errors import ClusterUnavailable
from ft_resources.kubernetes import names
from ft_resources.kubernetes.api import Api, ApiRefusal, Events, jobs
from ft_resources.kubernetes.objects import Object, ended

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 10.0
_ALL = ""


class JobWatch:
    """The latest state of a Job, until it has ended, is removed, or ``close`` is called.

    ``job`` is None before it exists and after it is removed, ``last`` is its last known state, ``answered`` is whether
    the API has answered. API failures change none of them: they are no evidence about the Job.
    """

    def __init__(self, watched: "WatchedNamespace", name: str) -> None:
        self._watched, self.name = watched, name
        self.job: Object | None = None
        self.last: Object | None = None
        self.answered = False

    def wait(self, seconds: float) -> None:
        """Wait for news, be it of another Job, at most ``seconds``."""
        with self._watched.news:
            self._watched.news.wait(seconds)

    def wait_answer(self, seconds: float) -> bool:
        """Whether the API has answered, after waiting for that at most ``seconds``."""
        with self._watched.news:
            return self._watched.news.wait_for(lambda: self.answered, seconds)

    def close(self) -> None:
        """Stop following."""
        self._watched.leave(self)

    def take(self, job: Object | None) -> bool:
        """Note the Job's state; returns whether this was the last."""
        self.job, self.answered = job, True
        self.last = job or self.last
        return ended(job) if job is not None else self.last is not None


class WatchedNamespace:
    """Follows Jobs, in a thread that lives while somebody does. A dropped ``JobWatch`` follows no more.

    Args:
        news: held while anything here changes, and told of each change.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        self.namespace, self.news = namespace, threading.Condition()
        self._api, self._path = api, jobs(namespace)
        self._followers: WeakValueDictionary[str, JobWatch] = WeakValueDictionary()
        self._thread: threading.Thread | None = None
        self._events: Events | None = None
        # What the thread asks for: one name's Job, or all; None without a thread.
        self._asked: str | None = None
        # The Jobs that were listed, and of which of these, with what was told of them since.
        self._listed: str | None = None
        self._jobs: dict[str, Object] = {}

    def follow(self, name: str) -> JobWatch:
        """The state of the Job ``name`` from now on; who follows it already is given the same object."""
        with self.news:
            if (found := self._followers.get(name)) is not None:
                return found
            watch = self._followers[name] = JobWatch(self, name)
            if self._listed == _ALL:
                self._tell(name, self._jobs.get(name))
            self._end_useless()
            if self._thread is None:
                self._thread = threading.Thread(target=self._follow, name=f"watch-{self.namespace}", daemon=True)
                self._thread.start()
        return watch

    def leave(self, watch: JobWatch) -> None:
        with self.news:
            if self._followers.get(watch.name) is watch:
                del self._followers[watch.name]
            self._end_useless()

    def _follow(self) -> None:
        version, wait_s = "", _FIRST_WAIT_S
        while (only := self._next()) is not None:
            try:
                if not version or only != self._listed:
                    version = self._list(only)
                # Bookmarks come every minute: a silent stream may belong to a server that was restored to a state
                # before ``version``, and stays silent for hours. So silence causes a new listing, as refusals do.
                before, version = version, ""
                with closing(self._api.watch(self._path, before, _query(only))) as events:
                    for event in events if self._begin(events) else ():
                        version = self._take(event)
                        wait_s = _FIRST_WAIT_S
                        if not self._useful():
                            break
            except ConnectionError:
                # The version of the broken stream's last event stays valid; later events are still available.
                pass
            except (ApiRefusal, ClusterUnavailable):
                version = ""
            # A server that ends streams at once, or only sends errors, must not be asked in a tight loop.
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S) if self._pause(wait_s) else _FIRST_WAIT_S

    def _next(self) -> str | None:
        """What to watch now. None, and this thread is no more, if nobody follows."""
        with self.news:
            self._asked = self._wanted()
            if self._asked is None:
                self._thread, self._listed, self._jobs = None, None, {}
            return self._asked

    def _wanted(self) -> str | None:
        """The only Job that is followed, ``_ALL`` where there are several, None without any."""
        some = list(islice(self._followers.keys(), 2))
        return (_ALL if len(some) == 2 else some[0]) if some else None

    def _useful(self) -> bool:
        """Whether the watch covers what is followed. One of all Jobs serves a single one too, until it ends."""
        with self.news:
            return (wanted := self._wanted()) is not None and self._asked in (wanted, _ALL)

    def _begin(self, events: Events) -> bool:
        """Whether to read the stream: not if others are followed by now."""
        with self.news:
            self._events = events
            return self._useful()

    def _end_useless(self) -> None:
        if not self._useful():
            self.news.notify_all()
            if self._events is not None:
                self._events.end()

    def _pause(self, seconds: float) -> bool:
        """Wait between two streams; whether to the end, as nothing else is wanted meanwhile."""
        with self.news:
            self._events = None
            return not self.news.wait_for(lambda: not self._useful(), seconds)

    def _list(self, only: str) -> str:
        """Read the current state of Jobs; returns the version to watch from."""
        found = self._api.list(self._path, _query(only))
        with self.news:
            self._listed, self._jobs = only, {}
            for job in found.get("items") or ():
                self._keep(job)
            for name in list(self._followers.keys()):
                if only in (name, _ALL):
                    self._tell(name, self._jobs.get(name))
        return str(found["metadata"]["resourceVersion"])

    def _take(self, event: dict[str, Any]) -> str:
        """Process an event; returns the version after it."""
        kind, item = event["type"], event["object"]
        with self.news:
            if kind == "DELETED":
                self._jobs.pop(name := item["metadata"]["name"], None)
                self._tell(name, None)
            elif kind in ("ADDED", "MODIFIED"):
                self._keep(item)
                self._tell(item["metadata"]["name"], item)
        return str(item["metadata"]["resourceVersion"])

    def _keep(self, job: Object) -> None:
        # Who wrote which field is as long as all the rest, and nobody here asks.
        job["metadata"].pop("managedFields", None)
        self._jobs[job["metadata"]["name"]] = job

    def _tell(self, name: str, job: Object | None) -> None:
        watch = self._followers.get(name)
        if watch is not None and watch.take(job):
            self._followers.pop(name, None)
        self.news.notify_all()


def _query(only: str) -> dict[str, str]:
    return {"labelSelector": names.MANAGED} if only == _ALL else {"fieldSelector": f"metadata.name={only}"}
