"""A store as one look at it sees it: what was read once is not read again until the look is over.

A status reads the same manifests and names for each of its works, and a page of jobs for each of its jobs.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from threading import Lock
from typing import Any

from ft_resources.remembered import Remembered
from ft_resources.store import Entry, Store

Look = tuple[str, str]
"""A method of the store, and the path that it is asked for."""
_LASTING: Remembered[bytes] = Remembered(5_000)


class Glance(Store):
    """``store`` for one look: objects, their absence and listings stay as they were first seen. For reading only, and
    for no longer than an answer takes.

    Objects of ``lasting`` paths never change and never go: each is read once a process, and not once a look.
    """

    def __init__(self, store: Store, *, lasting: Callable[[str], bool] = lambda path: False) -> None:
        self.__dict__.update(store.__dict__)
        self._store, self._lasting = store, lasting
        self._seen: dict[tuple[str, str], Any] = {}
        self._looking: dict[tuple[str, str], Lock] = {}
        self._lock = Lock()

    def get(self, path: str) -> bytes:
        lasts = self._lasting(path)
        if lasts and (known := _LASTING.known(self, path)) is not None:
            return known
        found: bytes | None = self._once("get", path, lambda: _found(self._store.get, path))
        if found is None:
            raise FileNotFoundError(path)
        return _LASTING.keep(self, path, found) if lasts else found

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

    def noting(self) -> "NotingGlance":
        """The same look, which notes what is looked at through it."""
        return NotingGlance(self)

    def ahead(self, looks: Iterable[Look], readers: Executor) -> None:
        """Look at all of these at once, for whoever would look at one after the other. Raises StoreUnavailable."""
        for each in [readers.submit(getattr(self, what), path) for what, path in looks]:
            with suppress(FileNotFoundError):
                each.result()

    def _once(self, what: str, path: str, look: Callable[[], Any]) -> Any:
        with self._lock:
            looking = self._looking.setdefault((what, path), Lock())
        # The other readers of a page wait for the one that looks.
        with looking:
            if (what, path) not in self._seen:
                self._seen[what, path] = look()
            return self._seen[what, path]


class NotingGlance(Glance):
    """``glance`` for one thread; ``looks`` are what was looked at through this one, as ``ahead`` takes them."""

    def __init__(self, glance: Glance) -> None:
        self.__dict__.update(glance.__dict__)
        self.looks: set[Look] = set()

    def _once(self, what: str, path: str, look: Callable[[], Any]) -> Any:
        # That there are tenants is asked for without a path.
        if path:
            self.looks.add((what, path))
        return super()._once(what, path, look)


def _found(get: Callable[[str], bytes], path: str) -> bytes | None:
    try:
        return get(path)
    except FileNotFoundError:
        return None
