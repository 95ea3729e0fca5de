"""Whether training should stop now: asked in one place only, so that all ranks get the same answer."""

import time
from collections import deque

from ft_assets.workers.training.ranks import Ranks
from ft_resources.outcomes import grace_s
from ft_resources.worker_context import WorkContext

_SEEN = 20


class Stops:
    """Checks for stop requests, and estimates from past steps and saves what still fits into the grace period."""

    def __init__(self, context: WorkContext, ranks: Ranks) -> None:
        self._context, self._ranks = context, ranks
        self._steps_s: deque[float] = deque(maxlen=_SEEN)
        self._began_at = time.monotonic()

    def asked(self) -> bool:
        """Whether any rank was asked to stop."""
        return self._ranks.any(self._context.stop_requested)

    def step_begins(self) -> None:
        self._began_at = time.monotonic()

    def step_ended(self) -> None:
        self._steps_s.append(time.monotonic() - self._began_at)

    def rest_of_step_s(self, done: int, of: int) -> float:
        """Seconds until the current step is done, after ``done`` of its micro-batches."""
        elapsed = time.monotonic() - self._began_at
        if done:
            return elapsed * max(of - done, 0) / done
        return max(self._steps_s, default=float("inf")) - elapsed

    def left_s(self) -> float:
        """Seconds until the worker may be killed."""
        return self._context.grace_s - self._context.stopping_s

    def fits(self, seconds: float) -> bool:
        """Whether this many seconds are left on every rank."""
        return not self._ranks.any(seconds > self.left_s())

    def expect_save_s(self, seconds: float) -> None:
        """Set the expected duration of a save, which decides the length of the grace period."""
        self._context.grace_s = grace_s(seconds)
