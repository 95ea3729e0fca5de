"""Priorities that change with time: work rises while it waits, work that rose by waiting preempts no running work, and
nearly finished work is not preempted at all. Pure.

Kueue compares the priorities of WorkloadPriorityClasses; relabelling a Job changes its Workload's priority, even while
it runs (Kueue 0.15 and later). So every rule selects a class, and each case has a class of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ft_resources.kubernetes import names
from ft_resources.kubernetes.objects import Object, ended, seconds
from ft_resources.kubernetes.settings import Ageing, KubernetesSettings
from ft_resources.work import Priority

PRIORITIES: dict[Priority, int] = {"production": 3000, "batch": 2000, "interactive": 1000}
"""The settings' default order: production before batch before interactive."""
_APART = 1000
STEPS = 3
"""Number of steps that work rises while it waits: ahead of newer work of its own priority, and with the last step also
ahead of work of the next priority that has not waited yet."""
RUNNING, NEARLY_DONE = "running", "done"
_FRESH_S = 600.0
"""Older progress is ignored."""
_LATE = 2.0
_AT_LEAST_S = 600.0
"""Nearly finished work is protected once, for twice its remaining time by its own estimate, and at least this long."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Relabel:
    """A Job's new class, and until when (seconds since the epoch) it counts as nearly finished; None: unchanged."""

    namespace: str
    name: str
    priority_class: str
    kept_until: float | None = None

    @property
    def patch(self) -> Object:
        """A merge patch of the Job."""
        notes = {} if self.kept_until is None else {"annotations": {names.KEPT_UNTIL: f"{self.kept_until:.0f}"}}
        return {"metadata": {"labels": {names.PRIORITY: self.priority_class}, **notes}}


def rank(value: int, apart: int, waited_s: float, every_s: float) -> int:
    """The rank of work with base rank ``value`` after a wait: each ``every_s`` adds a tenth of the distance to the next
    priority, and the last step exceeds that priority's base rank."""
    step = _step(waited_s, every_s)
    return value + (apart + apart // 20 if step == STEPS else step * apart // 10)


def class_for(base: str, ageing: Ageing, *, waited_s: float = 0.0, runs: bool = False, kept: bool = False) -> str:
    """The class of work with base class ``base``.

    While it waits: ``base``, then ``base-age-1`` to ``-3``. While it runs: ``base-running``, which only the last step
    outranks within its priority, or the last step if it had reached that. ``base-done`` while it is ``kept``.
    """
    if runs and kept:
        return f"{base}-{NEARLY_DONE}"
    step = _step(waited_s, ageing.every_hours * 3600.0)
    if runs and step < STEPS:
        return f"{base}-{RUNNING}"
    return f"{base}-age-{step}" if step else base


def all_classes(priority: Priority, base: str) -> dict[str, int]:
    """Every class that ``class_for`` may return for work of a priority, with its value."""
    value = PRIORITIES[priority]
    aged = {f"{base}-age-{step}": rank(value, _APART, float(step), 1.0) for step in range(1, STEPS + 1)}
    # Equal ranks do not preempt each other, so waiting work does not swap places with running work.
    running = {f"{base}-{RUNNING}": rank(value, _APART, STEPS - 1.0, 1.0)}
    # Above all others, so that no waiting work may preempt it; it does not wait itself.
    return {base: value, **aged, **running, f"{base}-{NEARLY_DONE}": max(PRIORITIES.values()) + 2 * _APART}


def part_done(progress: Mapping[str, Any], ran_s: float, now: float) -> tuple[float, float] | None:
    """The completed share (0 to 1) of a training by its own progress, including earlier attempts that it resumed from,
    and its remaining seconds; None if the progress is old, or is not about training."""
    fresh = now - float(progress.get("at") or 0.0) <= _FRESH_S
    done, total = float(progress.get("done") or 0.0), float(progress.get("total") or 0.0)
    if not fresh or progress.get("phase") != "training" or not 0.0 < done <= total:
        return None
    eta_s = progress.get("eta_s")
    return done / total, ran_s * (total - done) / done if eta_s is None else max(0.0, float(eta_s))


def started(job: Object) -> bool:
    """Whether a Job runs and has not ended, so that its progress is worth reading."""
    status = job.get("status", {})
    return not job["spec"].get("suspend") and bool(status.get("startTime")) and not ended(job)


def kept(job: Object) -> float:
    """Until when a Job is protected as nearly finished, in seconds since the epoch; 0 if it never was."""
    return _noted(job, names.KEPT_UNTIL)


def _noted(job: Object, annotation: str) -> float:
    try:
        return float(job["metadata"].get("annotations", {}).get(annotation) or 0.0)
    except ValueError:
        return 0.0


def plan_classes(
    seen: Sequence[tuple[Object, Mapping[str, Any]]], settings: KubernetesSettings, known: set[str], now: float
) -> list[Relabel]:
    """Which Jobs to relabel at ``now`` (seconds since the epoch), given their last progress (empty: not read).

    A Job with a class that is not the platform's got it by hand and keeps it; classes that the cluster does not have
    (``known``) are not used.
    """
    ageing = settings.ageing
    if ageing is None:
        return []
    bases = {name: base for kind, base in settings.priority_classes.items() for name in all_classes(kind, base)}
    found = (_relabel(job, progress, ageing, bases, now) for job, progress in seen)
    return [each for each in found if each is not None and each.priority_class in known]


def _relabel(
    job: Object, progress: Mapping[str, Any], ageing: Ageing, bases: Mapping[str, str], now: float
) -> Relabel | None:
    meta = job["metadata"]
    has = meta.get("labels", {}).get(names.PRIORITY, "")
    # Of one that was made anew at another size, the first one's wait counts.
    created = _noted(job, names.WAITS_SINCE) or seconds(meta.get("creationTimestamp"))
    if names.QUEUE not in meta.get("labels", {}) or has not in bases or created is None:
        return None
    if ended(job) or "deletionTimestamp" in meta:
        return None
    began = seconds(job.get("status", {}).get("startTime")) if started(job) else None
    kept_until, note = kept(job), None
    if began is not None and not kept_until and (done := part_done(progress, now - began, now)):
        part, rest_s = done
        if part >= ageing.keep_from:
            kept_until = note = now + max(_AT_LEAST_S, _LATE * rest_s)
    waited_s = (now if began is None else began) - created
    wanted = class_for(bases[has], ageing, waited_s=waited_s, runs=began is not None, kept=now < kept_until)
    if wanted == has:
        return None
    return Relabel(namespace=meta["namespace"], name=meta["name"], priority_class=wanted, kept_until=note)


def _step(waited_s: float, every_s: float) -> int:
    return min(STEPS, int(max(0.0, waited_s) // every_s))
