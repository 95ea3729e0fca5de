"""Outcomes of requests: what users, judges and graders said of single answers, and how long they took.

``<tenant>/outcomes/<line>/<day>/<hhmm>-<server>-<number>.jsonl`` holds what one server saw in one minute, an outcome a
line. It names requests and holds no text of them. Outcomes are kept for ``KEPT_DAYS``, and as long as a rollout needs.
"""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from pydantic import Field, model_validator

from ft_assets.settings.rollout_settings import Kind
from ft_resources.records import Record
from ft_resources.store import Store

FOLDER = "outcomes"
KEPT_DAYS = 30
MOST_A_MINUTE = 20_000
"""More of one line are not kept by one server, so that an object stays a few megabytes."""

FAILED_S = 86_400.0
"""The latency of an answer that failed."""


class Outcome(Record):
    """One thing known of one answer."""

    WHAT: ClassVar[str] = "the outcome"

    model: str = Field(min_length=1, description="The adapter as servers know it: line@digest, 16 digits of it.")
    request: str = Field(min_length=1, max_length=100, description="Id of the request.")
    kind: Kind
    value: float = Field(
        ge=0.0,
        description="thumbs: 1 for up; judge: its score; latency: seconds, a day for an answer that failed; "
        "refusal: 1 for refused; format: 1 for valid. All but latency are at most 1.",
    )
    at: str = Field(description="When it became known; UTC, ISO 8601 with milliseconds.")

    @model_validator(mode="after")
    def _in_range(self) -> "Outcome":
        if self.kind != "latency" and self.value > 1.0:
            raise ValueError(f"{self.kind} is between 0 and 1")
        return self

    @property
    def line(self) -> str:
        return self.model.partition("@")[0]


class OutcomeLog:
    """Collects a server's outcomes and writes an object for each line and minute. Safe for threads.

    A server that is killed loses those of its last minute.

    Args:
        server: unique to the process, since objects are never written twice.
    """

    def __init__(self, store: Store, server: str) -> None:
        self._store, self._server = store, server
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str], list[Outcome]] = {}
        self._written = 0

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome; it is written with the first ``flush`` after its minute."""
        with self._lock:
            waiting = self._waiting.setdefault((outcome.line, outcome.at[:16]), [])
            if len(waiting) < MOST_A_MINUTE:
                waiting.append(outcome)

    def flush(self, now: datetime | None = None) -> int:
        """Write the minutes that are over, and return the number of outcomes. At the end of a process, call it with a
        ``now`` that lies ahead. Raises StoreUnavailable; what was not written is kept for the next call."""
        minute = (now or datetime.now(UTC)).isoformat()[:16]
        with self._lock:
            over = {key: self._waiting.pop(key) for key in sorted(self._waiting) if key[1] < minute}
        written = 0
        try:
            for line, when in list(over):
                self._write(line, when, over[line, when])
                written += len(over.pop((line, when)))
        finally:
            with self._lock:
                for key, left in over.items():
                    self._waiting[key] = [*left, *self._waiting.get(key, ())]
        return written

    def _write(self, line: str, when: str, found: list[Outcome]) -> None:
        # A number of its own each time: whoever was late for a minute's object makes a second one.
        self._written += 1
        name = f"{when[11:13]}{when[14:16]}-{self._server}-{self._written}.jsonl"
        self._store.create(f"{_day_folder(line, when[:10])}/{name}", b"".join(one.data() + b"\n" for one in found))


def read_outcomes(store: Store, line: str, since: str, until: str) -> Iterator[Outcome]:
    """Outcomes of a line from ``since`` and before ``until`` (ISO 8601), by time; of several of one kind for one
    request and adapter the first. Raises CorruptArtifact for an object that cannot be read."""
    seen: set[tuple[str, str, str]] = set()
    for day in store.folders(_line_folder(line)):
        if not since[:10] <= day <= until[:10]:
            continue
        found = [outcome for entry in store.names(_day_folder(line, day)) for outcome in _read(store, line, day, entry)]
        for outcome in sorted(found, key=lambda each: (each.at, each.request)):
            key = (outcome.model, outcome.request, outcome.kind)
            if since <= outcome.at < until and key not in seen:
                seen.add(key)
                yield outcome


def prune_outcomes(store: Store, line: str, before: str) -> int:
    """Delete whole days before ``before`` (ISO 8601); returns the number of objects."""
    removed = 0
    for day in store.folders(_line_folder(line)):
        if day < before[:10]:
            for entry in list(store.entries(_day_folder(line, day))):
                store.delete(entry.path)
                removed += 1
    return removed


def lines_with_outcomes(store: Store, tenant: str) -> list[str]:
    return sorted(store.folders(f"{tenant}/{FOLDER}"))


def kept_since(now: datetime) -> str:
    """The oldest day that is kept, as ``prune_outcomes`` takes it."""
    return (now - timedelta(days=KEPT_DAYS)).isoformat()


def _read(store: Store, line: str, day: str, name: str) -> Iterator[Outcome]:
    path = f"{_day_folder(line, day)}/{name}"
    for text in store.get(path).splitlines():
        yield Outcome.parse(text, path)


def _line_folder(line: str) -> str:
    return f"{line.partition('.')[0]}/{FOLDER}/{line}"


def _day_folder(line: str, day: str) -> str:
    return f"{_line_folder(line)}/{day}"
