"""The control plane: one thread that brings objects to what their specs say; garbage, and namespaces that end."""

import abc
import heapq
import threading
import traceback
from collections import OrderedDict

from tests.cluster.objects import EVENTS, KINDS, NAMESPACES, NODES, PODS, ApiError, Change, Kind, Object, Objects

Key = tuple[str, ...]
_OWNING = [kind for kind in KINDS.values() if kind not in (EVENTS, NODES)]


class Controller(abc.ABC):
    """Brings one kind of thing in order; ``pods_after_s`` is how long it waits for more news after one of a pod."""

    pods_after_s = 0.0

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    @abc.abstractmethod
    def key(self, change: Change) -> Key | None:
        """What to bring in order after a change; None where that is no matter of this controller."""

    @abc.abstractmethod
    def sync(self, key: Key) -> float | None:
        """Bring it in order; seconds until it must be looked at again, if it must."""


class ControlPlane:
    """Syncs what changed, in order of change, each key once however often it changed meanwhile."""

    def __init__(self, objects: Objects, controllers: list[Controller]) -> None:
        self._controllers, self._objects = controllers, objects
        self._due: OrderedDict[tuple[int, Key], None] = OrderedDict()
        self._later: list[tuple[float, int, Key]] = []
        self._waiting: set[tuple[int, Key]] = set()
        self._changed = threading.Condition()
        self._stopped = False
        self.errors: list[str] = []
        objects.listeners.append(self._listen)
        self._clock = objects.clock
        self._clock.listeners.append(self._wake)
        self._thread = threading.Thread(target=self._run, name="control-plane", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def _listen(self, change: Change) -> None:
        with self._changed:
            for at, controller in enumerate(self._controllers):
                key = controller.key(change)
                wait_s = controller.pods_after_s if change.kind is PODS else 0.0
                if key is not None and wait_s:
                    self._put_off(at, key, wait_s)
                elif key is not None:
                    self._due[at, key] = None
            self._changed.notify()

    def _put_off(self, at: int, key: Key, seconds: float) -> None:
        if (at, key) not in self._waiting:
            self._waiting.add((at, key))
            heapq.heappush(self._later, (self._clock() + seconds, at, key))

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._later and self._later[0][0] <= self._clock():
                    _, at, key = heapq.heappop(self._later)
                    self._waiting.discard((at, key))
                    self._due[at, key] = None
                if self._stopped:
                    return
                if not self._due:
                    self._changed.wait(self._later[0][0] - self._clock() if self._later else None)
                    continue
                (at, key), _ = self._due.popitem(last=False)
            try:
                after_s = self._controllers[at].sync(key)
            except ApiError as error:
                after_s = 0.0 if error.code in (404, 409) else 0.5
            except Exception:  # One controller's mistake is told when the cluster is closed; the others go on.
                self.errors.append(traceback.format_exc())
                after_s = None
            if after_s is not None:
                with self._changed:
                    heapq.heappush(self._later, (self._clock() + after_s, at, key))


class GarbageCollector(Controller):
    """Deletes what no living owner has, and finishes deletions in the foreground and those that orphan."""

    def key(self, change: Change) -> Key | None:
        meta = change.object["metadata"]
        born = change.type == "ADDED" and "ownerReferences" in meta
        return (meta["uid"],) if born or change.type == "DELETED" or "deletionTimestamp" in meta else None

    def sync(self, key: Key) -> float | None:
        owned = [(kind, item) for kind, item in self._all() if key[0] in _owners(item)]
        found = [(kind, item) for kind, item in self._all() if item["metadata"]["uid"] == key[0]]
        for kind, item in found:
            finalizers = item["metadata"].get("finalizers", [])
            if "orphan" in finalizers:
                for child_kind, child in owned:
                    self._objects.change(child_kind, child, lambda draft: _forget(draft, key[0]))
                self._objects.change(kind, item, lambda draft: draft["metadata"]["finalizers"].remove("orphan"))
            elif "foregroundDeletion" in finalizers:
                self._delete(owned)
                if not owned:
                    self._objects.change(
                        kind, item, lambda draft: draft["metadata"]["finalizers"].remove("foregroundDeletion")
                    )
            elif (owners := _owners(item)) and not owners & {one["metadata"]["uid"] for _, one in self._all()}:
                self._delete([(kind, item)])
        if not found:
            self._delete(owned)
        return 0.05 if owned and (not found or "deletionTimestamp" in found[0][1]["metadata"]) else None

    def _all(self) -> list[tuple[Kind, Object]]:
        return [(kind, item) for kind in _OWNING for item in self._objects.list(kind)]

    def _delete(self, items: list[tuple[Kind, Object]]) -> None:
        for kind, item in items:
            meta = item["metadata"]
            if "deletionTimestamp" not in meta:
                self._objects.delete(kind, meta.get("namespace", ""), meta["name"], {"propagationPolicy": "Background"})


class NamespaceController(Controller):
    """Empties a namespace that is deleted, and lets go of it when nothing is left."""

    def key(self, change: Change) -> Key | None:
        inside = change.type == "DELETED" and change.object["metadata"].get("namespace")
        return (inside,) if inside else (change.object["metadata"]["name"],) if change.kind is NAMESPACES else None

    def sync(self, key: Key) -> float | None:
        namespace = self._objects.find(NAMESPACES, "", key[0])
        if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
            return None
        inside = [
            (kind, item) for kind in KINDS.values() if kind.namespaced for item in self._objects.list(kind, key[0])
        ]
        for kind, item in inside:
            if "deletionTimestamp" not in item["metadata"]:
                self._objects.delete(kind, key[0], item["metadata"]["name"], {"propagationPolicy": "Background"})
        if not inside:
            self._objects.change(NAMESPACES, namespace, lambda draft: draft["metadata"].pop("finalizers"))
        return 0.05 if inside else None


def _owners(item: Object) -> set[str]:
    return {owner["uid"] for owner in item["metadata"].get("ownerReferences", [])}


def _forget(item: Object, owner: str) -> None:
    kept = [one for one in item["metadata"]["ownerReferences"] if one["uid"] != owner]
    item["metadata"]["ownerReferences"] = kept
    if not kept:
        del item["metadata"]["ownerReferences"]
