"""What has to be told: a marker for each record that is news, written just before the record itself.

A marker without its record is ignored, and forgotten after a day; a record without a marker would be told to nobody.
So a process that dies in between neither loses news nor invents any. The marker goes when everybody was told.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, get_args

from ft_resources.canonical import digest
from ft_resources.store import Store

FOLDER = "notices_due"
Source = Literal["submission", "line", "base_bump", "base_release", "held", "run", "queue"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """News for ``tenant``; ``path`` is the record that says what happened, ``at`` when the marker was written (UTC)."""

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
    """The id of what a record says, 32 hex characters: by what it is, so that it is the same for whoever asks."""
    return digest({"source": source, "tenant": tenant, "path": path})[:32]


def mark_due(store: Store, source: Source, tenant: str, path: str) -> str:
    """Remember that ``tenant`` is to be told of the record at ``path``; the event's id. To be called before the record
    is written; calling it again changes nothing that was told already."""
    known = event_id(source, tenant, path)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    store.create_json(_marker(tenant, known), {"source": source, "path": path, "at": at})
    return known


def markers(store: Store) -> list[str]:
    """Paths of all markers, sorted."""
    return sorted(entry.path for entry in store.entries(FOLDER))


def read_markers(store: Store, paths: list[str], problems: list[str]) -> Iterator[Due]:
    """What the markers at ``paths`` say. One that cannot be read is named in ``problems``."""
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
            # Told to whoever it lies with, it could be another tenant's.
            problems.append(f"{path}: the marker belongs elsewhere; remove it")
            continue
        yield due


def forget(store: Store, due: Due) -> None:
    """Everybody was told, or nobody is to be."""
    store.delete(due.marker)


def _marker(tenant: str, event: str) -> str:
    return f"{FOLDER}/{tenant}/{event}.json"
