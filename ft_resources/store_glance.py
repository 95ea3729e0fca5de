"""A store as one look at it sees it: what was read once is not read again until the look is over.

A status reads the same manifests and names for each of its works, and a page of jobs for each of its jobs.
"""

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

from ft_resources.store import Entry, Store


class Glance(Store):
    """``store`` for one look: objects, their absence and listings stay as they were first seen. For reading only, and
    for no longer than an answer takes."""

    def __init__(self, store: Store) -> None:
        self.__dict__.update(store.__dict__)
        self._store = store
        self._seen: dict[tuple[str, str], Any] = {}
        self._looking: dict[tuple[str, str], Lock] = {}
        self._lock = Lock()

    def get(self, path: str) -> bytes:
        found: bytes | None = self._once("get", path, lambda: _found(self._store.get, path))
        if found is None:
            raise FileNotFoundError(path)
        return found

    def exists(self, path: str) -> bool:
        known: bool = self._once("exists", path, lambda: self._store.exists(path))
        return known

    def names(self, folder: str) -> list[str]:
        known: list[str] = self._once("names", folder, lambda: self._store.names(folder))
        return list(known)

    def folders(self, prefix: str) -> list[str]:
        known: list[str] = self._once("folders", prefix, lambda: self._store.folders(prefix))
        return list(known)

    def tenants(self) -> list[str]:
        known: list[str] = self._once("tenants", "", self._store.tenants)
        return list(known)

    def entries(self, prefix: str) -> Iterator[Entry]:
        known: list[Entry] = self._once("entries", prefix, lambda: list(self._store.entries(prefix)))
        return iter(known)

    def _once(self, what: str, path: str, look: Callable[[], Any]) -> Any:
        with self._lock:
            looking = self._looking.setdefault((what, path), Lock())
        # The other readers of a page wait for the one that looks.
        with looking:
            if (what, path) not in self._seen:
                self._seen[what, path] = look()
            return self._seen[what, path]


def _found(get: Callable[[str], bytes], path: str) -> bytes | None:
    try:
        return get(path)
    except FileNotFoundError:
        return None
