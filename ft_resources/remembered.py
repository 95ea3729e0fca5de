"""An in-process cache of create-only records: they never change, so each is read once.

Only existing records are cached, never their absence. An eviction costs one more read.
"""

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from ft_resources.store import Store

Value = TypeVar("Value")


class Remembered(Generic[Value]):
    """Values by store and key; at most ``most``, the oldest are evicted first."""

    def __init__(self, most: int = 200_000) -> None:
        self._most = most
        self._values: dict[tuple[str, str], Value] = {}
        self._lock = Lock()

    def known(self, store: Store, key: str) -> Value | None:
        """The cached value of ``key``."""
        return self._values.get((store.url, key))

    def keep(self, store: Store, key: str, value: Value) -> Value:
        """Cache ``value``, which must never change."""
        with self._lock:
            if len(self._values) >= self._most:
                del self._values[next(iter(self._values))]
            self._values[store.url, key] = value
        return value

    def get(self, store: Store, key: str, find: Callable[[], Value | None]) -> Value | None:
        """The cached value of ``key``, else the result of ``find``; absence is not cached."""
        known = self.known(store, key)
        if known is not None:
            return known
        found = find()
        return None if found is None else self.keep(store, key, found)
