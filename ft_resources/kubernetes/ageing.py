"""Priorities that change with time: who waits long rises, who is nearly done is not preempted. Pure.

Kueue compares the priorities of WorkloadPriorityClasses; relabelling a Job changes its Workload's priority. So both
rules are a choice of class. A class of its own stands for each step of ageing and for work that is nearly done.
"""

from dataclasses import dataclass

from ft_resources.kubernetes.kueue import PRIORITIES
from ft_resources.kubernetes.settings import Priority

STEPS = 3
"""So many times work rises while it waits; it never comes to the next priority, only before all of its own."""
NEARLY_DONE = "done"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """``age_every_s``: work rises a step each so many seconds of waiting. ``keep_from``: from this part of its expected
    duration on (0 to 1) it is not preempted."""

    age_every_s: float = 4 * 3600.0
    keep_from: float = 0.8


def class_for(
    base: str, rules: Rules, *, waited_s: float = 0.0, ran_s: float = 0.0, expected_s: float | None = None
) -> str:
    """The class of work whose own is ``base``: ``base``, ``base-age-1`` to ``-3`` by its time in the queue, or
    ``base-done`` for work that runs and is beyond ``keep_from`` of its expected duration.

    Work that takes longer than twice what was expected is not protected any more: the expectation was wrong.
    """
    if expected_s and ran_s and rules.keep_from * expected_s <= ran_s < 2 * expected_s:
        return f"{base}-{NEARLY_DONE}"
    steps = min(STEPS, int(waited_s // rules.age_every_s))
    return f"{base}-age-{steps}" if steps else base


def all_classes(priority: Priority, base: str) -> dict[str, int]:
    """Every class that ``class_for`` may name for work of a priority, with its value."""
    value = PRIORITIES[priority]
    aged = {f"{base}-age-{step}": value + 100 * step for step in range(1, STEPS + 1)}
    # Above all others, so that nothing that waits may preempt it; it waits for nothing itself.
    return {base: value, **aged, f"{base}-{NEARLY_DONE}": max(PRIORITIES.values()) + 1000}
