"""Calls that take longer than a proxy waits: they go on beside the request, and whoever asks again gets the answer."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ft_resources.errors import TooManyRequests

WAIT_S = 15.0
# Of whoever does not come back, the answer is forgotten.
_KEPT_S = 600.0
_AT_ONCE, _OF_A_TENANT = 8, 3
# Each request that waits holds one of the threads in which all requests are answered.
_WAITING_OF_A_TENANT = 6


class StillRunning(Exception):
    """The call goes on: ask for the same again."""


@dataclass
class _Running:
    tenant: str
    answer: "Future[Any]"
    asked_at: float


class LongCalls:
    """At most 8 calls at once, of one tenant at most 3, and at most 6 requests that wait for them."""

    def __init__(self, wait_s: float = WAIT_S) -> None:
        self._wait_s = wait_s
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="call")
        self._lock = threading.Lock()
        self._known: dict[str, _Running] = {}
        self._waiting: Counter[str] = Counter()

    def run(self, tenant: str, key: str, call: Callable[[], Any]) -> Any:
        """What ``call`` gives or raises, once: asking with the same ``key`` meanwhile waits for the same call.

        Raises StillRunning after ``wait_s`` seconds, and TooManyRequests.
        """
        with self._lock:
            running = self._found(tenant, key) or self._started(tenant, key, call)
            running.asked_at = time.monotonic()
            if self._waiting[tenant] >= _WAITING_OF_A_TENANT:
                raise TooManyRequests(
                    f"{_WAITING_OF_A_TENANT} requests of this tenant wait for long calls",
                    where="call",
                    remedy="Try again when one of them has its answer.",
                )
            self._waiting[tenant] += 1
        try:
            answer = running.answer.result(self._wait_s)
        except TimeoutError:
            if not running.answer.done():
                raise StillRunning from None
            answer = running.answer.result()
        finally:
            with self._lock:
                self._waiting[tenant] -= 1
                if running.answer.done():
                    self._known.pop(key, None)
        return answer

    def stop(self) -> None:
        """Let those under way end, and begin no other."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _found(self, tenant: str, key: str) -> _Running | None:
        forgotten = time.monotonic() - _KEPT_S
        for each, running in list(self._known.items()):
            if running.answer.done() and running.asked_at < forgotten:
                del self._known[each]
        return self._known.get(key)

    def _started(self, tenant: str, key: str, call: Callable[[], Any]) -> _Running:
        if sum(each.tenant == tenant and not each.answer.done() for each in self._known.values()) >= _OF_A_TENANT:
            raise TooManyRequests(
                f"{_OF_A_TENANT} long calls of this tenant are under way",
                where="call",
                remedy="Try again when one of them has ended.",
            )
        made = self._known[key] = _Running(tenant, self._pool.submit(call), time.monotonic())
        return made
