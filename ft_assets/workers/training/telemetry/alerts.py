"""Alerts about a training: far too slow, waiting for data or one rank, without a finite validation loss, or unmoved.

Pure: rows of step metrics in, alerts out. A training loss of NaN is not an alert: it ends the training (``Diverged``).
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ft_assets.workers.training.journal import NOT_FINITE

STREAK, STREAK_S = 10, 15.0
"""A condition must last for this many steps in a row, and this many seconds."""
_SLOW, _WAITING = 0.5, 0.2
_BEHIND, _LONGER = 0.1, 1.25
"""A straggler makes the others wait for this share of each step, and takes this many times as long as they do."""
_FIRST = 10
"""Steps, after the first (warm-up), that measure how fast this run can be."""
_SLOW_REMEDY = (
    "Look for other work on this machine or GPU and for one that runs hot; if it was never faster, try a larger "
    "training.micro_batch_size and training.recompute off."
)
_STRAGGLER_REMEDY = "Look for other work on that node, for a GPU of it that runs hot, and at its disk."
_NOT_FINITE_REMEDY = (
    "No gate passes if it ends so. Lower training.learning_rate, or train in bf16 or fp32 if it is fp16."
)
_UNMOVED_NATS = 0.2
"""A model whose answers came no further apart than this, by all of their tokens, answers as its reference does."""
_UNMOVED_REMEDY = (
    "It will answer as before. Raise training.learning_rate, or give more steps: a smaller training.global_batch_size, "
    "more training.epochs, more rows."
)
_STARVED_REMEDY = "Give the worker a faster disk for its scratch folder (FT_SCRATCH), more cores, or a nearer store."


OF_THE_RESULT = ("validation", "unmoved")
"""Kinds that tell of what was trained, not of how fast."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """``step`` is the one at which it was noticed."""

    kind: Literal["slow", "starved", "straggler", "validation", "unmoved"]
    step: int
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}, {'after' if self.kind in OF_THE_RESULT else 'up to'} step {self.step}. {self.remedy}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaving:
    """A training that is to leave its reference: its last step, and the method's ``beta``, which scales rewards."""

    last: int
    beta: float


class Alarms:
    """Checks rows in order; each kind of alert is raised once."""

    def __init__(self, expected: float | None = None, leaving: Leaving | None = None) -> None:
        """``expected`` is the estimate's speed in tokens/s; None if it has none. ``leaving``: of a method that compares
        with a reference. ``nodes`` names each rank's machine; while it is empty, stragglers are not reported."""
        self.nodes: Sequence[str] = ()
        self._leaving, self._margins, self._highest = leaving, list[float](), 0.0
        self._expected, self._rates = expected or 0.0, list[float]()
        self._slow, self._starved = Streak(), Streak()
        self._slowest, self._behind = -1, Streak()
        self.alerts: list[Alert] = []

    def look(self, row: Mapping[str, Any]) -> list[Alert]:
        """New alerts after this row."""
        found = []
        if NOT_FINITE in row:
            what = "the validation loss is not a finite number"
            found.append(Alert(kind="validation", step=row["step"], what=what, remedy=_NOT_FINITE_REMEDY))
        if self._leaving and "rewards/margins" in row:
            found += self._unmoved(row, self._leaving)
        rate = row.get("tokens_per_s")
        if rate:
            found += self._pace(row, rate)
        new = [alert for alert in found if all(told.kind != alert.kind for told in self.alerts)]
        self.alerts += new
        return new

    def _unmoved(self, row: Mapping[str, Any], leaving: Leaving) -> list[Alert]:
        self._margins.append(row["rewards/margins"] / leaving.beta)
        self._highest = max(self._highest, row["learning_rate"])
        apart = statistics.fmean(self._margins[-_FIRST:])
        if row["step"] < leaving.last or abs(apart) >= _UNMOVED_NATS:
            return []
        what = (
            f"the model hardly left its reference: liked and disliked answers differ by {apart:.2g} nats at a "
            f"learning rate of at most {self._highest:g}"
        )
        return [Alert(kind="unmoved", step=row["step"], what=what, remedy=_UNMOVED_REMEDY)]

    def _pace(self, row: Mapping[str, Any], rate: float) -> list[Alert]:
        found = []
        seconds, step, waiting = row["tokens"] / rate, row["step"], waiting_share(row)
        expected, source = self._usual()
        if self._slow.goes_on(rate < _SLOW * expected, seconds):
            what = f"{rate:,.0f} tokens/s are under half of the {expected:,.0f} that {source}"
            found.append(Alert(kind="slow", step=step, what=what, remedy=_SLOW_REMEDY))
        if self._starved.goes_on(waiting > _WAITING, seconds):
            what = f"{waiting:.0%} of a step goes into waiting for data"
            found.append(Alert(kind="starved", step=step, what=what, remedy=_STARVED_REMEDY))
        if self.nodes and "slowest_rank" in row:
            found += self._straggler(row, seconds)
        if len(self._rates) <= _FIRST:
            self._rates.append(rate)
        return found

    def _straggler(self, row: Mapping[str, Any], seconds: float) -> list[Alert]:
        rank, own_s, others_s = row["slowest_rank"], row["slowest_rank_s"], row["other_ranks_s"]
        if rank != self._slowest:
            self._slowest, self._behind = rank, Streak()
        slow = own_s - others_s > _BEHIND * seconds and own_s > _LONGER * others_s
        if not self._behind.goes_on(slow, seconds):
            return []
        what = (
            f"all ranks wait for rank {rank} on node {self.nodes[rank]}: of each step of {seconds:.2g} s it works "
            f"{own_s:.2g} s by itself, the others {others_s:.2g} s"
        )
        return [Alert(kind="straggler", step=row["step"], what=what, remedy=_STRAGGLER_REMEDY)]

    def _usual(self) -> tuple[float, str]:
        """The expected speed: the estimate's or that of the run's own first steps, whichever is higher."""
        own = statistics.median(self._rates[1:]) if len(self._rates) > _FIRST else 0.0
        return (own, "its first steps made") if own > self._expected else (self._expected, "the estimate expects")


class Streak:
    """How long a condition has held without interruption."""

    def __init__(self) -> None:
        self._steps, self._seconds = 0, 0.0

    def goes_on(self, so: bool, seconds: float) -> bool:
        """Count a step in which the condition held (``so``) or not; whether it has held for long enough."""
        self._steps, self._seconds = (self._steps + 1, self._seconds + seconds) if so else (0, 0.0)
        return self._steps >= STREAK and self._seconds >= STREAK_S


def waiting_share(row: Mapping[str, Any]) -> float:
    """The share of a step's time that went into waiting for data."""
    return min(1.0, float(row.get("data_wait_s", 0.0)) * row["tokens_per_s"] / max(row["tokens"], 1))
