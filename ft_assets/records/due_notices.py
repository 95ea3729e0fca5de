"""Pending notices: a marker for each record that must be announced, written just before the record itself.

A marker without its record is ignored, and deleted after a day; a record without a marker would never be announced.
So a process that dies in between neither loses a notice nor invents one. The marker is deleted after all deliveries.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, get_args

from ft_resources.canonical import digest
from ft_resources.store import Store

FOLDER = "notices_due"
Source = Literal["submission", "line", "base_bump", "base_release", "held", "run", "queue", "alert", "rollout", "drift"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """A notice for ``tenant``: ``path`` is the record of what happened, ``at`` is when the marker was written (UTC)."""

    source: Source
    tenant: str
    path: str
    at: datetime

    @property
    def id(self) -> str:
        return event_id(self.source, self.tenant, self.path)

    @property
    def marker(self) -> str:
        return _marker(self.tenant, self.id)


def event_id(source: Source, tenant: str, path: str) -> str:
    """Event id of a record, 32 hex characters; every process derives the same one from the record's place."""
    return digest({"source": source, "tenant": tenant, "path": path})[:32]


def mark_due(store: Store, source: Source, tenant: str, path: str) -> str:
    """Mark the record at ``path`` for announcement to ``tenant``; returns the event's id. Call it before the record is
    written; calling it again does not repeat notices that were sent."""
    known = event_id(source, tenant, path)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    store.create_json(_marker(tenant, known), {"source": source, "path": path, "at": at})
    return known


def markers(store: Store) -> list[str]:
    """Paths of all markers, sorted."""
    return sorted(entry.path for entry in store.entries(FOLDER))


def read_markers(store: Store, paths: list[str], problems: list[str]) -> Iterator[Due]:
    """The markers at ``paths``. Unreadable ones are reported in ``problems``."""
    for path in paths:
        raw = store.find_json(path)
        if raw is None:
            continue
        try:
            if raw["source"] not in get_args(Source):
                raise ValueError(raw["source"])
            due = Due(
                source=raw["source"],
                tenant=path.split("/")[1],
                path=str(raw["path"]),
                at=datetime.fromisoformat(raw["at"]),
            )
        except (KeyError, TypeError, ValueError):
            problems.append(f"{path}: the marker cannot be read; remove it")
            continue
        if due.marker != path:
            # A marker in the wrong tenant's folder would announce another tenant's event to it.
            problems.append(f"{path}: the marker belongs elsewhere; remove it")
            continue
        yield due


def forget(store: Store, due: Due) -> None:
    """Delete the marker: every recipient was notified, or there is none."""
    store.delete(due.marker)


def _marker(tenant: str, event: str) -> str:
    return f"{FOLDER}/{tenant}/{event}.json"
