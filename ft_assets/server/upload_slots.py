"""Threads for uploads, apart from those of all other requests: each waits for its client's bytes."""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio import CapacityLimiter

from ft_resources.errors import TooManyRequests

_ALL, _OF_A_TENANT = 32, 8
Made = TypeVar("Made")


class UploadSlots:
    """At most 32 uploads at once, of one tenant at most 8."""

    def __init__(self) -> None:
        self._under_way: Counter[str] = Counter()
        self._limiter: CapacityLimiter | None = None

    async def run(self, tenant: str, upload: Callable[[], Made]) -> Made:
        """What ``upload`` gives, in a thread. Raises TooManyRequests, and what it raises."""
        # Made in the event loop that uses it.
        self._limiter = self._limiter or CapacityLimiter(_ALL)
        if self._under_way[tenant] >= _OF_A_TENANT:
            raise TooManyRequests(
                f"{_OF_A_TENANT} uploads of this tenant are under way",
                where="file",
                remedy="Try again when one of them has ended.",
            )
        self._under_way[tenant] += 1
        try:
            return await anyio.to_thread.run_sync(upload, limiter=self._limiter)
        finally:
            self._under_way[tenant] -= 1
