"""One delivery round: read due events, send what may be sent now, and record the results.

Bounded in events and in seconds. Targets are served in parallel, and a target that fails is skipped for the rest of the
round, so that a server that is down or slow costs one try and delays no other target.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from ft_assets.control.notices.channels import Channel, channels_of
from ft_assets.control.notices.describe import concerned, describe
from ft_assets.control.notices.event import Event
from ft_assets.control.notices.event_records import (
    begin_try,
    deliveries,
    find_event,
    keep_event,
    record_failed,
    record_given_up,
    record_sent,
)
from ft_assets.control.notices.plan import MOST_TRIES, plan
from ft_assets.records.due_notices import Due, forget, mark_due, markers, read_markers
from ft_assets.settings.keys import SHARED
from ft_assets.settings.tenants import TenantsFile
from ft_resources.errors import StoreUnavailable, UserError
from ft_resources.messages import NotSent, Target, one_line
from ft_resources.notifier import Send
from ft_resources.store import Store

MOST_EVENTS = 200
SECONDS = 20.0
_SIDE_BY_SIDE = 8
# A marker without a record was left by a process that died before it wrote the record.
_FORGET_AFTER = timedelta(days=1)


@dataclass(kw_only=True)
class Round:
    """Result of a round; ``after`` is where the next one continues, empty if all due events were examined."""

    looked: int = 0
    sent: int = 0
    failed: int = 0
    given_up: int = 0
    waiting: int = 0
    after: str = ""
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class _Sending:
    event: Event
    channel: Channel
    number: int


def tell(
    store: Store,
    tenants: TenantsFile,
    send: Send,
    *,
    after: str = "",
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    most: int = MOST_EVENTS,
    seconds: float = SECONDS,
) -> Round:
    """Deliver due events. ``after`` is a hint where to begin: later rounds handle what is left."""
    done, began = Round(), time.monotonic()
    paths = markers(store)
    ahead = [path for path in paths if path > after] or paths
    batch = ahead[:most]
    done.after = batch[-1] if len(ahead) > most else ""
    sendings: dict[Target, list[_Sending]] = {}
    for due in read_markers(store, batch, done.problems):
        if time.monotonic() - began > seconds / 2:
            # The remaining time is for sending.
            done.after = due.marker
            break
        done.looked += 1
        try:
            for sending in _next(store, tenants, due, now(), done):
                sendings.setdefault(sending.channel.target, []).append(sending)
        except StoreUnavailable:
            raise
        except UserError as error:
            # One unreadable record must not block the others.
            done.problems.append(f"{due.path}: {error.what}")
    _send_all(store, send, sendings, began + seconds, done)
    return done


def _next(store: Store, tenants: TenantsFile, due: Due, now: datetime, done: Round) -> Iterator[_Sending]:
    """What to send of one event now; a settled event's marker is deleted."""
    if not _anybody(tenants, due):
        forget(store, due)
        return
    event = find_event(store, due.tenant, due.id)
    if event is None:
        event = describe(store, due)
        if event is None:
            if now - due.at > _FORGET_AFTER:
                forget(store, due)
            return
        for tenant in concerned(store, due):
            mark_due(store, due.source, tenant, due.path)
    channels = {channel.name: channel for channel in channels_of(tenants, event)}
    if channels:
        # Only events with a channel are recorded.
        event = keep_event(store, event)
    step = plan(list(channels), deliveries(store, event) if channels else {}, now)
    for name in step.give_up:
        record_given_up(store, event, name, MOST_TRIES)
        done.given_up += 1
    done.waiting += step.waiting
    if step.settled:
        forget(store, due)
    for name, number in step.send.items():
        yield _Sending(event=event, channel=channels[name], number=number)


def _anybody(tenants: TenantsFile, due: Due) -> bool:
    """Whether anybody receives notices. Usually nobody does, and then the records need not be read."""
    if due.tenant == SHARED:
        return tenants.notify is not None or any(tenant.notify for tenant in tenants.tenants.values())
    own = tenants.tenants.get(due.tenant)
    return tenants.notify is not None or (own is not None and own.notify is not None)


def _send_all(store: Store, send: Send, sendings: dict[Target, list[_Sending]], until: float, done: Round) -> None:
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        rounds = pool.map(lambda items: _send_to_one(store, send, items, until), sendings.values())
        for sent, problem, left in rounds:
            done.sent += sent
            done.failed += bool(problem)
            done.waiting += left
            done.problems += [problem] if problem else []


def _send_to_one(store: Store, send: Send, sendings: list[_Sending], until: float) -> tuple[int, str, int]:
    """Send to one target in sequence, up to the first failure; returns the number sent, the failure, and the number
    left for a later round."""
    sent = 0
    for place, item in enumerate(sendings):
        if time.monotonic() > until:
            return sent, "", len(sendings) - place
        event, name = item.event, item.channel.name
        if not begin_try(store, event, name, item.number):
            continue
        try:
            send(item.channel.target, event.message())
        except NotSent as error:
            record_failed(store, event, name, item.number, one_line(error.what))
            return sent, f"{event.tenant}: {name}, try {item.number}: {error.what}", len(sendings) - place - 1
        record_sent(store, event, name, item.number)
        sent += 1
    return sent, "", 0
