"""A cluster's clock: it runs as this machine's does, and a test moves it on.

What is to pass in a test is long (``Access.long_s``), so that it passes when the test says so and never by itself.
"""

import time
from collections.abc import Callable


class RunningClock:
    """Seconds since 1970. ``listeners`` are called when it was moved."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self.listeners: list[Callable[[], None]] = []

    def __call__(self) -> float:
        return time.time() + self._ahead

    def advance(self, seconds: float) -> None:
        self._ahead += seconds
        for listener in self.listeners:
            listener()
