"""What the store said a moment ago: while it is slow or away, nobody waits who was answered before."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

from ft_resources.errors import DatabaseUnavailable, NotFound, NotIdentified, StoreUnavailable

_LOG = logging.getLogger(__name__)
FRESH_S = 2.0
"""What the store says is followed at least so soon while it answers."""
# What is asked for all the time is looked up again before it is too old, so that nobody waits for it.
_AHEAD_S = 1.0
_PATIENCE_S = 2.0
_WITHOUT_STORE_S = 900.0
_AT_ONCE = 8
_GONE = (NotFound, NotIdentified)

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _Known(Generic[Value]):
    value: Value
    at: float


@dataclass(frozen=True, slots=True)
class _Look(Generic[Value]):
    began: float
    found: "Future[Value]"


class Remembered(Generic[Key, Value]):
    """What ``look`` says of keys, for ``FRESH_S`` seconds; while the store does not answer, or hangs, what it said
    last, for 15 minutes.

    One look at a key is under way at a time. At most ``most`` keys are known; those looked up longest ago go. What is
    known is given for a look that takes longer than ``patience_s``.
    """

    def __init__(
        self,
        look: Callable[[Key], Value],
        *,
        most: int = 4096,
        patience_s: float = _PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look, self._most, self._patience_s, self._clock = look, most, patience_s, clock
        self._known: OrderedDict[Key, _Known[Value]] = OrderedDict()
        self._looks: dict[Key, _Look[Value]] = {}
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="remembered")

    def close(self) -> None:
        """Begin no other look."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def find(self, key: Key) -> Value:
        """What is known of ``key``, else what a look says. Raises as ``look`` does; NotFound and NotIdentified are
        never remembered."""
        known, look = self._at_hand(key)
        now = self._clock()
        age = now - known.at if known is not None else _WITHOUT_STORE_S
        if known is not None and (look is None or age < FRESH_S):
            return known.value
        assert look is not None
        spare = known if age < _WITHOUT_STORE_S else None
        wait_s = None if spare is None else max(0.0, look.began + self._patience_s - now)
        done, _ = await asyncio.wait([_told(look.found)], timeout=wait_s)
        if done or spare is None:
            try:
                return look.found.result()
            except (StoreUnavailable, DatabaseUnavailable) as error:
                if spare is None:
                    raise
                _LOG.warning("%s is what it was before: %s", key, error)
        return spare.value

    def _at_hand(self, key: Key) -> tuple[_Known[Value] | None, _Look[Value] | None]:
        """What is known, and the look under way: one begins where nothing is known, or what is known grows old."""
        # Both at one moment: a look that ended between the two would be carried out a second time.
        with self._lock:
            known, now = self._known.get(key), self._clock()
            if known is not None and now - known.at < _AHEAD_S:
                return known, None
            look = self._looks.get(key)
            if look is None:
                look = self._looks[key] = _Look(now, self._pool.submit(self._carry_out, key))
            return known, look

    def _carry_out(self, key: Key) -> Value:
        began = self._clock()
        try:
            found = self._look(key)
        except BaseException as error:
            with self._lock:
                del self._looks[key]
                if isinstance(error, _GONE):
                    self._known.pop(key, None)
            raise
        with self._lock:
            del self._looks[key]
            self._known[key] = _Known(found, began)
            self._known.move_to_end(key)
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return found


def _told(found: "Future[Value]") -> "asyncio.Future[Value]":
    """Done when ``found`` is. Whoever goes away before ends nothing, and needs no error of it."""
    waiting: asyncio.Future[Value] = asyncio.wrap_future(found)
    waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
    return waiting
