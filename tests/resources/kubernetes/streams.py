"""An API whose Jobs, pods and watches are what a test says."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Source = Callable[[str], Iterator[dict[str, Any]]]


def job_at(
    version: int, *, name: str = "j", suspend: bool = False, active: int = 0, condition: str = ""
) -> dict[str, Any]:
    conditions = [{"type": condition, "status": "True"}] if condition else []
    return {
        "metadata": {"name": name, "namespace": "ft-acme", "uid": "u", "resourceVersion": str(version)},
        "spec": {"suspend": suspend},
        "status": {"active": active, "ready": 0, "conditions": conditions},
    }


class Stream:
    """The events of one watch; ended from here, it breaks at the next of them, which ``Told.wake`` may hasten."""

    def __init__(self, api: "Told", version: str, query: Mapping[str, str]) -> None:
        self._api, self._key = api, (version, dict(query))
        self._source, self._broken = api.source(version), False
        api.open.append(self._key)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for event in self._source:
            if self._broken:
                break
            yield event
        if self._broken:
            raise ConnectionError("ended here")

    def end(self) -> None:
        if not self._broken:
            self._broken = True
            self._api.wake()

    def close(self) -> None:
        self._api.open.remove(self._key)


class Told:
    """``asked`` are the versions of watches and lists, ``open`` versions and queries of watches that are open."""

    def __init__(self, source: Source, wake: Callable[[], None] = lambda: None) -> None:
        self.source, self.wake, self.asked = source, wake, list[str]()
        self.open: list[tuple[str, dict[str, str]]] = []
        self.jobs = [job_at(1)]
        self.pods: list[dict[str, Any]] = []
        self.workloads: list[dict[str, Any]] = []

    def get(self, path: str) -> dict[str, Any]:
        """What discovery says of Kueue."""
        return {"versions": [{"version": "v1beta2"}]}

    def list(self, path: str, query: Mapping[str, str], **_: Any) -> dict[str, Any]:
        self.asked.append("list")
        only = query.get("fieldSelector", "").removeprefix("metadata.name=")
        items = [job for job in self.jobs if only in ("", job["metadata"]["name"])]
        return {"metadata": {"resourceVersion": "7"}, "items": items}

    def items(self, path: str, query: Any, **_: Any) -> Sequence[dict[str, Any]]:
        return tuple(self.workloads if path.endswith("/workloads") else self.pods)

    def watch(self, path: str, version: str, query: Mapping[str, str]) -> Stream:
        self.asked.append(version)
        return Stream(self, version, query)
