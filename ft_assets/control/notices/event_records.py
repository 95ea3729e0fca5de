"""Records of an event, below ``<tenant>/notices/<event id>/``; all are create-only.

``event.json`` is the event as sent, the same for every try. For each channel ``0001.json`` is written before the first
try (its writer makes the try) and ``0001-failed.json`` after it, if it failed; ``sent.json`` or ``given-up.json`` ends
delivery. So the store knows what was sent, and a restarted daemon does not send it again.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from ft_assets.control.notices.event import Event
from ft_assets.control.notices.plan import Delivery, Try
from ft_resources.errors import CorruptArtifact
from ft_resources.records import RESTORE
from ft_resources.store import Entry, Store

NOTICES = "notices"
_TRY = re.compile(r"([0-9]{4})(-failed)?\.json")


def event_folder(tenant: str, event: str) -> str:
    return f"{tenant}/{NOTICES}/{event}"


def find_event(store: Store, tenant: str, event: str) -> Event | None:
    """The event as sent, None if nothing was sent yet. Raises CorruptArtifact."""
    path = f"{event_folder(tenant, event)}/event.json"
    found = Event.find(store, path)
    if found is not None and (found.tenant, found.id) != (tenant, event):
        raise CorruptArtifact("the event belongs to another tenant", where=path, remedy=RESTORE)
    return found


def keep_event(store: Store, event: Event) -> Event:
    """Record the event; the first record is final, and is what all channels get."""
    path = f"{event_folder(event.tenant, event.id)}/event.json"
    if event.create(store, path):
        return event
    found = find_event(store, event.tenant, event.id)
    assert found is not None, f"{path} vanished"
    return found


def deliveries(store: Store, event: Event) -> dict[str, Delivery]:
    """State of delivery on each channel that was tried. Times are the store's own: they only decide when the next try
    is made."""
    folder = event_folder(event.tenant, event.id)
    by_channel: dict[str, list[Entry]] = {}
    for entry in store.entries(folder):
        channel, _, _ = entry.path.removeprefix(f"{folder}/").rpartition("/")
        if channel:
            by_channel.setdefault(channel, []).append(entry)
    return {channel: _delivery(entries) for channel, entries in by_channel.items()}


def begin_try(store: Store, event: Event, channel: str, number: int) -> bool:
    """True for the one caller that makes this try."""
    return store.create_json(_path(event, channel, f"{number:04d}"), {"at": _now()})


def record_failed(store: Store, event: Event, channel: str, number: int, reason: str) -> None:
    store.create_json(_path(event, channel, f"{number:04d}-failed"), {"at": _now(), "reason": reason})


def record_sent(store: Store, event: Event, channel: str, number: int) -> None:
    store.create_json(_path(event, channel, "sent"), {"at": _now(), "try": number})


def record_given_up(store: Store, event: Event, channel: str, tries: int) -> None:
    """Record that there is no further try, with the result of the last one."""
    last = store.find_json(_path(event, channel, f"{tries:04d}-failed")) or {}
    reason = last.get("reason", "the process of the last attempt ended unexpectedly")
    store.create_json(_path(event, channel, "given-up"), {"at": _now(), "tries": tries, "reason": reason})


@dataclass(frozen=True, kw_only=True)
class Told:
    """An event and its delivery by channel: ``sent``, ``given up: why`` or ``N tries: why``."""

    event: Event
    channels: dict[str, str]


def told(store: Store, tenant: str) -> Iterator[Told]:
    """Every recorded event of a tenant, newest first."""
    events = [find_event(store, tenant, name) for name in store.folders(f"{tenant}/{NOTICES}")]
    for event in sorted(filter(None, events), key=lambda each: (each.at, each.id), reverse=True):
        found = deliveries(store, event)
        yield Told(event=event, channels={name: _words(store, event, name, found[name]) for name in sorted(found)})


def _words(store: Store, event: Event, channel: str, delivery: Delivery) -> str:
    if delivery.sent:
        return "sent"
    last = "given-up" if delivery.given_up else f"{len(delivery.tries):04d}-failed"
    reason = (store.find_json(_path(event, channel, last)) or {}).get("reason", "no response")
    return f"{'given up' if delivery.given_up else f'{len(delivery.tries)} tries'}: {reason}"


def _delivery(entries: Iterable[Entry]) -> Delivery:
    names = {entry.path.rpartition("/")[2]: entry.modified for entry in entries}
    begun = {match[1]: at for name, at in names.items() if (match := _TRY.fullmatch(name)) and not match[2]}
    tries = tuple(Try(at=at, failed=f"{number}-failed.json" in names) for number, at in sorted(begun.items()))
    return Delivery(tries=tries, sent="sent.json" in names, given_up="given-up.json" in names)


def _path(event: Event, channel: str, name: str) -> str:
    return f"{event_folder(event.tenant, event.id)}/{channel}/{name}.json"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
