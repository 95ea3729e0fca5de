"""A store that notes what is asked of it, and what is asked at the same time."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from ft_resources.store import Entry, Store
from ft_resources.store_marker import open_store

Found = TypeVar("Found")


@dataclass(frozen=True, kw_only=True)
class Look:
    """One request to the store, such as ``get`` of a path, and when it began and ended."""

    what: str
    path: str
    began: float
    ended: float


class WatchedStore(Store):
    """``looks`` are the requests so far; each takes ``lasts_s`` at least, as one over a network does."""

    def __init__(self, url: str, *, lasts_s: float = 0.0) -> None:
        super().__init__(url, layout=open_store(url).layout)
        self.looks: list[Look] = []
        self._lasts_s, self._noting = lasts_s, threading.Lock()

    @property
    def turns(self) -> int:
        """How many requests had to wait for another one to end, and the first: the most that never overlap."""
        found, last = 0, 0.0
        for look in sorted(self.looks, key=lambda look: look.ended):
            if look.began >= last:
                found, last = found + 1, look.ended
        return found

    def get(self, path: str) -> bytes:
        return self._noted("get", path, super().get)

    def exists(self, path: str) -> bool:
        return self._noted("exists", path, super().exists)

    def put(self, path: str, data: bytes) -> None:
        self._noted("put", path, lambda path: super(WatchedStore, self).put(path, data))

    def create(self, path: str, data: bytes) -> bool:
        return self._noted("create", path, lambda path: super(WatchedStore, self).create(path, data))

    def delete(self, path: str) -> None:
        self._noted("delete", path, super().delete)

    def entries(self, prefix: str) -> Iterator[Entry]:
        return iter(self._noted("entries", prefix, lambda path: list(super(WatchedStore, self).entries(path))))

    def names(self, folder: str) -> list[str]:
        return self._noted("names", folder, super().names)

    def names_after(self, folder: str, after: str = "") -> Iterator[str]:
        listed = self._noted(
            "names_after", folder, lambda path: list(super(WatchedStore, self).names_after(path, after))
        )
        return iter(listed)

    def folders(self, prefix: str) -> list[str]:
        return self._noted("folders", prefix, super().folders)

    def tenants(self) -> list[str]:
        return self._noted("tenants", "", lambda _: super(WatchedStore, self).tenants())

    def _noted(self, what: str, path: str, ask: Callable[[str], Found]) -> Found:
        began = time.monotonic()
        try:
            return ask(path)
        finally:
            time.sleep(self._lasts_s)
            with self._noting:
                self.looks.append(Look(what=what, path=path, began=began, ended=time.monotonic()))
