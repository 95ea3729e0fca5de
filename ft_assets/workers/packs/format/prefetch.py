"""Prefetching: files to be read are fetched into a cache while the reader is busy."""

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType


class Prefetch:
    """A thread that fetches files by name until all are fetched or it is closed; leaving its ``with`` block closes it.

    Args:
        names: in the order in which they will be read; consumed lazily in the thread.
        fetch: fetches one file. Its exceptions are ignored, as the reader meets them on the same file.
        size: bytes of a file.
        room: most bytes fetched but not yet read; a larger file is fetched alone.
    """

    def __init__(
        self, names: Iterable[str], fetch: Callable[[str], object], size: Callable[[str], int], room: int
    ) -> None:
        self._names, self._fetch, self._size, self._room = names, fetch, size, room
        self._ahead: dict[str, int] = {}
        self._read: set[str] = set()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="prefetch", daemon=True)
        self._thread.start()

    def read(self, name: str) -> None:
        """Mark a file as being read: it no longer counts as ahead, and need not be fetched."""
        with self._changed:
            self._read.add(name)
            self._ahead.pop(name, None)
            self._changed.notify()

    def close(self) -> None:
        """Stop after the current file, and wait for that: afterwards nothing writes to the folder."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def __enter__(self) -> "Prefetch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        for name in self._names:
            size = self._size(name)
            with self._changed:
                while not (self._closed or name in self._read or self._has_room(size)):
                    self._changed.wait()
                if self._closed:
                    return
                if name in self._read:
                    continue
                self._ahead[name] = size
            with suppress(Exception):
                self._fetch(name)

    def _has_room(self, size: int) -> bool:
        return not self._ahead or sum(self._ahead.values()) + size <= self._room
