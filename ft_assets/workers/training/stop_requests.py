"""Whether training is to stop now: the one place that asks, so that all ranks get the same answer."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from ft_assets.checkpoints.methods.objective import FirstLoss, Objective, Part, Whole
from ft_assets.checkpoints.ranks import Ranks
from ft_assets.packs.isolation.batches import MicroBatch
from ft_resources.outcomes import grace_s
from ft_resources.worker_context import WorkContext

_SEEN = 20


class Stops:
    """Asks for stop requests, and knows what still fits into the grace period, from what it has seen."""

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
        """Seconds until the step under way is done, of which ``done`` micro-batches are."""
        elapsed = time.monotonic() - self._began_at
        if done:
            return elapsed * max(of - done, 0) / done
        return max(self._steps_s, default=float("inf")) - elapsed

    def left_s(self) -> float:
        """Seconds until the worker may be killed."""
        return self._context.grace_s - self._context.stopping_s

    def fits(self, seconds: float) -> bool:
        """Whether so many seconds are left, on every rank."""
        return not self._ranks.any(seconds > self.left_s())

    def expect_save_s(self, seconds: float) -> None:
        """A save is expected to take so long, which decides how long the grace period is."""
        self._context.grace_s = grace_s(seconds)


class Polled:
    """An objective that calls ``poll`` before each part of a step; everything else is the objective's own."""

    def __init__(self, objective: Objective, poll: Callable[[], None]) -> None:
        self._objective, self._poll = objective, poll
        self.figures = objective.figures

    def part(self, model: Any, batch: MicroBatch, whole: Whole, reference: NDArray[Any] | None) -> Part:
        self._poll()
        return self._objective.part(model, batch, whole, reference)

    def first_loss(self, *, rough: bool) -> FirstLoss | None:
        return self._objective.first_loss(rough=rough)
