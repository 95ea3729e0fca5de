"""Drift of servers: when served adapters differed from the promotion log for too long, and when that ended.

``shared/serving_drift/<seq>.json`` holds the changes, create-only; the last one is the current state. Every ``ft
serve`` may write them; none repeats a change that another one wrote.
"""

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import ClassVar, Literal

from pydantic import Field

from ft_assets.control.notices.event import Event
from ft_assets.control.serving.status import ServingStatus
from ft_assets.records.due_notices import Due, mark_due
from ft_assets.settings.keys import SHARED
from ft_assets.settings.notices import EventKind
from ft_resources.messages import clean, one_line
from ft_resources.records import Record
from ft_resources.store import Store

FOLDER = f"{SHARED}/serving_drift"
QUIET_S = 120.0
"""A new process must see no drift for so many seconds before it records the end of an earlier drift: its own drift
shows only after a minute."""
_NAMED = 50


class DriftChange(Record):
    """The record of drift or of its end."""

    WHAT: ClassVar[str] = "the record of drift"

    state: Literal["drift", "recovered"]
    differences: tuple[str, ...] = Field(description="In words, what differs; of a recovery, what differed.")
    at: str = Field(description="UTC, ISO 8601.")

    @property
    def tenants(self) -> set[str]:
        """Whose lines they are of."""
        return _tenants(self.differences)


class DriftWatch:
    """Records changes at each look; used by one thread. Drift is one change for a tenant, however long it lasts."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock, self._began = store, clock, clock()
        self._told: set[str] = set()
        self._knows = False

    def look(self, status: ServingStatus) -> DriftChange | None:
        """Record the change that this look shows; None without a change. Raises StoreUnavailable and
        CorruptArtifact."""
        if status.trouble:
            # The wanted state is unknown at present.
            return None
        if status.drift:
            self._knows = True
            if _tenants(status.drift) <= self._told:
                return None
            return self._drifts(status.drift)
        if self._told or (not self._knows and self._clock() - self._began >= QUIET_S):
            return self._recovers()
        return None

    def _drifts(self, differences: tuple[str, ...]) -> DriftChange | None:
        number, last = self._last()
        tenants = _tenants(differences)
        known = last is not None and last.state == "drift" and tenants <= last.tenants
        change = None if known else self._write(number + 1, "drift", differences)
        self._told |= tenants
        return change

    def _recovers(self) -> DriftChange | None:
        number, last = self._last()
        was = last is not None and last.state == "drift"
        change = self._write(number + 1, "recovered", last.differences) if was and last is not None else None
        self._told, self._knows = set(), True
        return change

    def _last(self) -> tuple[int, DriftChange | None]:
        names = self._store.names(FOLDER)
        return len(names), DriftChange.find(self._store, f"{FOLDER}/{names[-1]}") if names else None

    def _write(
        self, number: int, state: Literal["drift", "recovered"], differences: tuple[str, ...]
    ) -> DriftChange | None:
        path = f"{FOLDER}/{number:06d}.json"
        at = datetime.now(UTC).isoformat(timespec="seconds")
        change = DriftChange(state=state, differences=differences, at=at)
        mark_due(self._store, "drift", SHARED, path)
        return change if change.create(self._store, path) else None


def drift_event(store: Store, due: Due) -> Event | None:
    """The event for a change; a tenant sees its own lines only."""
    found = DriftChange.find(store, due.path)
    if found is None:
        return None
    mine = [each for each in found.differences if due.tenant in (SHARED, _tenant(each))]
    if found.state == "drift":
        title = f"the served adapters differ from the promoted ones: {len(mine)} differences"
        remedy = "Check the reason: ft serve status"
    else:
        title, remedy = "all promoted adapters are served again", ""
    return Event(
        id=due.id,
        kind=EventKind.DRIFT,
        tenant=due.tenant,
        subject="servers",
        title=one_line(title),
        at=found.at,
        facts={"state": found.state},
        details=tuple(clean(each) for each in mine[:_NAMED]),
        remedy=remedy,
    )


def drifting_tenants(store: Store, due: Due) -> list[str]:
    """The tenants of the lines in a change."""
    found = DriftChange.find(store, due.path)
    return sorted(found.tenants) if found else []


def _tenants(differences: Iterable[str]) -> set[str]:
    return {_tenant(each) for each in differences}


def _tenant(difference: str) -> str:
    """A difference begins with what servers call an adapter: ``tenant.dataset.recipe@digest``."""
    return difference.partition(".")[0]
