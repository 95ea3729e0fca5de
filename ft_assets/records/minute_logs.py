"""Logs that several servers write: an object for each line, server and minute, never written twice.

``<tenant>/<folder>/<line>/<day>/<hhmm>-<server>-<number>.jsonl``, one record a line.
"""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime

from ft_resources.store import Store


class MinuteLog:
    """Collects a server's records and writes an object for each line and minute. Safe for threads.

    A server that is killed loses those of its last minute.

    Args:
        folder: what the log is called in the store.
        server: unique to the process, since objects are never written twice.
        most: records of one line in a minute, and ``most_bytes`` their bytes; further ones are not kept, so that an
            object stays a few megabytes.
    """

    def __init__(self, store: Store, folder: str, server: str, *, most: int, most_bytes: int) -> None:
        self._store, self._folder, self._server = store, folder, server
        self._most, self._most_bytes = most, most_bytes
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str], list[bytes]] = {}
        self._bytes: dict[tuple[str, str], int] = {}
        self._written = 0

    def keep(self, line: str, at: str, data: bytes) -> bool:
        """Keep a record of the moment ``at`` (ISO 8601), to be written with the first ``flush`` after its minute; False
        where the minute is full."""
        key = (line, at[:16])
        with self._lock:
            waiting, size = self._waiting.setdefault(key, []), self._bytes.get(key, 0) + len(data)
            if len(waiting) >= self._most or size > self._most_bytes:
                return False
            waiting.append(data)
            self._bytes[key] = size
        return True

    def flush(self, now: datetime | None = None) -> int:
        """Write the minutes that are over, and return the number of records. At the end of a process, call it with a
        ``now`` that lies ahead. Raises StoreUnavailable; what was not written is kept for the next call."""
        minute = (now or datetime.now(UTC)).isoformat()[:16]
        with self._lock:
            over = {key: self._waiting.pop(key) for key in sorted(self._waiting) if key[1] < minute}
        written = 0
        try:
            for line, when in list(over):
                self._write(line, when, over[line, when])
                written += len(over.pop((line, when)))
                with self._lock:
                    self._bytes.pop((line, when), None)
        finally:
            with self._lock:
                for key, left in over.items():
                    self._waiting[key] = [*left, *self._waiting.get(key, ())]
        return written

    def _write(self, line: str, when: str, found: list[bytes]) -> None:
        # Numbered: records that are late for a minute's object go into a second one.
        self._written += 1
        name = f"{when[11:13]}{when[14:16]}-{self._server}-{self._written}.jsonl"
        folder = f"{line_folder(self._folder, line)}/{when[:10]}"
        self._store.create(f"{folder}/{name}", b"".join(data + b"\n" for data in found))


def read_days(store: Store, folder: str, line: str, since: str, until: str) -> Iterator[list[tuple[str, bytes]]]:
    """For each day from ``since`` to ``until`` (ISO 8601): the records of its minutes from ``since`` to ``until``, with
    the object that each is in."""
    for day in store.folders(line_folder(folder, line)):
        if since[:10] <= day <= until[:10]:
            place = f"{line_folder(folder, line)}/{day}"
            minutes = {name: f"{day}T{name[:2]}:{name[2:4]}" for name in store.names(place)}
            paths = [f"{place}/{name}" for name, at in minutes.items() if since[:16] <= at <= until[:16]]
            yield [(path, text) for path in paths for text in store.get(path).splitlines()]


def prune(store: Store, folder: str, line: str, before: str) -> int:
    """Delete whole days before ``before`` (ISO 8601); returns the number of objects."""
    removed = 0
    for day in store.folders(line_folder(folder, line)):
        if day < before[:10]:
            for entry in list(store.entries(f"{line_folder(folder, line)}/{day}")):
                store.delete(entry.path)
                removed += 1
    return removed


def lines_in(store: Store, folder: str, tenant: str) -> list[str]:
    """The lines of a tenant that have records."""
    return sorted(store.folders(f"{tenant}/{folder}"))


def line_folder(folder: str, line: str) -> str:
    return f"{line.partition('.')[0]}/{folder}/{line}"
