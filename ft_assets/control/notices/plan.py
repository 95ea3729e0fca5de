"""What to send next: a pure plan over an event's channels and the result of each attempt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

# Seconds to wait after the first failure, the second, and so on; after the last, delivery is given up.
BACKOFF_S = (60, 300, 1_800, 7_200, 21_600, 43_200)
MOST_TRIES = len(BACKOFF_S) + 1
# A try without a result for this long belongs to a dead process; whether the message arrived is unknown.
LEASE_S = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Try:
    """A try that was begun at ``at`` (UTC), and whether it is known to have failed."""

    at: datetime
    failed: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """What is recorded of an event on a channel."""

    tries: tuple[Try, ...] = ()
    sent: bool = False
    given_up: bool = False

    @property
    def settled(self) -> bool:
        return self.sent or self.given_up


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What to do now on each of an event's channels; ``send`` maps a channel to the number of its next try."""

    send: Mapping[str, int]
    give_up: Sequence[str]
    waiting: int

    @property
    def settled(self) -> bool:
        """Whether every channel has succeeded or was given up."""
        return not self.send and not self.waiting


def plan(channels: Sequence[str], deliveries: Mapping[str, Delivery], now: datetime) -> Step:
    """The next step per channel: a delivered channel gets nothing, a failed one is retried with back-off."""
    send: dict[str, int] = {}
    give_up: list[str] = []
    waiting = 0
    for channel in channels:
        delivery = deliveries.get(channel, Delivery())
        if delivery.settled:
            continue
        tries = delivery.tries
        if tries and not tries[-1].failed and now < tries[-1].at + timedelta(seconds=LEASE_S):
            waiting += 1
        elif len(tries) >= MOST_TRIES:
            give_up.append(channel)
        elif tries and now < tries[-1].at + timedelta(seconds=BACKOFF_S[len(tries) - 1]):
            waiting += 1
        else:
            send[channel] = len(tries) + 1
    return Step(send=send, give_up=give_up, waiting=waiting)
