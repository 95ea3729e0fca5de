"""What is recorded of an event, below ``<tenant>/notices/<event id>/``; every record is create-only.

``event.json`` is what is told, the same for every try. For each channel ``0001.json`` is written before the first try
(whoever writes it makes it) and ``0001-failed.json`` after it, if it failed; ``sent.json`` or ``given-up.json`` ends
it. So what was told is known wherever the store is, and no daemon that starts anew tells it again.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from ft_assets.notices.event import Event
from ft_assets.notices.plan import Delivery, Try
from ft_resources.canonical import canonical_json
from ft_resources.errors import CorruptArtifact
from ft_resources.records import RESTORE, find_record
from ft_resources.store import Entry, Store

NOTICES = "notices"
_TRY = re.compile(r"([0-9]{4})(-failed)?\.json")


def event_folder(tenant: str, event: str) -> str:
    return f"{tenant}/{NOTICES}/{event}"


def find_event(store: Store, tenant: str, event: str) -> Event | None:
    """The event as it is told, None where nothing was told of it yet. Raises CorruptArtifact."""
    path = f"{event_folder(tenant, event)}/event.json"
    found = find_record(store, path, Event, "the event")
    if found is not None and (found.tenant, found.id) != (tenant, event):
        raise CorruptArtifact("the event belongs to somebody else", where=path, remedy=RESTORE)
    return found


def keep_event(store: Store, event: Event) -> Event:
    """Record the event; the first record stands, and is what everybody is told."""
    path = f"{event_folder(event.tenant, event.id)}/event.json"
    if store.create(path, canonical_json(event.model_dump(mode="json"))):
        return event
    found = find_event(store, event.tenant, event.id)
    assert found is not None, f"{path} vanished"
    return found


def deliveries(store: Store, event: Event) -> dict[str, Delivery]:
    """What became of the event on each channel that was tried. The store's own times are taken: they only decide when
    the next try is made."""
    folder = event_folder(event.tenant, event.id)
    by_channel: dict[str, list[Entry]] = {}
    for entry in store.entries(folder):
        channel, _, _ = entry.path.removeprefix(f"{folder}/").rpartition("/")
        if channel:
            by_channel.setdefault(channel, []).append(entry)
    return {channel: _delivery(entries) for channel, entries in by_channel.items()}


def begin_try(store: Store, event: Event, channel: str, number: int) -> bool:
    """True for the one caller who makes this try."""
    return store.create_json(_path(event, channel, f"{number:04d}"), {"at": _now()})


def record_failed(store: Store, event: Event, channel: str, number: int, reason: str) -> None:
    store.create_json(_path(event, channel, f"{number:04d}-failed"), {"at": _now(), "reason": reason})


def record_sent(store: Store, event: Event, channel: str, number: int) -> None:
    store.create_json(_path(event, channel, "sent"), {"at": _now(), "try": number})


def record_given_up(store: Store, event: Event, channel: str, tries: int) -> None:
    """Say that there is no further try, with what the last one ended with."""
    last = store.find_json(_path(event, channel, f"{tries:04d}-failed")) or {}
    reason = last.get("reason", "the last try was by a process that died")
    store.create_json(_path(event, channel, "given-up"), {"at": _now(), "tries": tries, "reason": reason})


@dataclass(frozen=True, kw_only=True)
class Told:
    """An event and how its telling stands: ``sent``, ``given up: why`` or ``N tries: why`` by channel."""

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
    reason = (store.find_json(_path(event, channel, last)) or {}).get("reason", "no word of it")
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
