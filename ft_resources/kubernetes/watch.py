"""One Job, followed by one watch: what a waiting run needs of the API beside nothing else."""

import threading
from typing import Any

from ft_resources.errors import ClusterUnavailable
from ft_resources.kubernetes.api import Api, ApiRefusal, jobs
from ft_resources.kubernetes.objects import Object, ended

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 10.0


class JobWatch:
    """Keeps the latest state of a Job. A thread of its own, which ends with the Job or with ``close``.

    ``job`` is None where there is none (yet, or any more), ``last`` is it as it was last, ``answered`` is whether the
    API has been heard. Trouble with the API changes none of them: no news is no evidence.
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
        """Until there are news, but no longer than ``seconds``."""
        with self._news:
            self._news.wait(seconds)

    def wait_answer(self, seconds: float) -> bool:
        """Whether the API has been heard, waiting for that at most so long."""
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
                # Bookmarks come every minute: a stream without a word may be of a server that was set back behind
                # ``version`` and has nothing newer to tell, for hours. So silence leads to a new look, as refusals do.
                before, version = version, ""
                for event in self._api.watch(self._path, before, self._only):
                    if not (version := self._take(event)):
                        break
                    wait_s = _FIRST_WAIT_S
                    if self._over():
                        break
            except ConnectionError:
                # The version of what the broken stream told last stands; what came after it is still to be had.
                pass
            except (ApiRefusal, ClusterUnavailable):
                version = ""
            # A server that ends its streams at once, or tells nothing but errors, must not be asked in a loop.
            self._closed.wait(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def _look(self) -> str:
        """Read the Job as it is; the version to watch from."""
        found = self._api.list(self._path, self._only)
        items = found.get("items") or []
        self._set(items[0] if items else None)
        return str(found["metadata"]["resourceVersion"])

    def _take(self, event: dict[str, Any]) -> str:
        """Take in an event; the version after it, empty where the Job has to be read again: after any error."""
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
