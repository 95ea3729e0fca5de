"""What a person should know of a training before it ends: that it is far too slow, or waits for its data.

Pure: rows of step metrics in, alerts out. A loss that is no number is not here: it ends the training (``Diverged``).
"""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

STREAK, STREAK_S = 10, 15.0
"""What lasts for so many steps in a row, and as many seconds, is no hiccup."""
_SLOW, _WAITING = 0.5, 0.2
_FIRST = 10
"""After the first, which warms up, so many steps say how fast this run can be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """``step`` is the one at which it was noticed."""

    kind: Literal["slow", "starved"]
    step: int
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}, up to step {self.step}. {self.remedy}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Alarms:
    """Looks at rows in their order; each kind of alert comes once."""

    def __init__(self, expected: float | None = None) -> None:
        """``expected`` is the speed that the estimate expects, in tokens/s; None where it expects none."""
        self._expected, self._first = expected, list[float]()
        self._streaks = {"slow": Streak(), "starved": Streak()}
        self._seen = 0
        self.alerts: list[Alert] = []

    def look(self, row: Mapping[str, Any]) -> list[Alert]:
        """What is new with this row; those of other things than steps say nothing."""
        rate = row.get("tokens_per_s")
        if not rate:
            return []
        told = len(self.alerts)
        seconds = row["tokens"] / rate
        waiting = waiting_share(row)
        expected, source = self._usual()
        if self._streaks["slow"].goes_on(rate < _SLOW * expected, seconds):
            what = f"{rate:,.0f} tokens/s are under half of the {expected:,.0f} that {source}"
            remedy = (
                "Look for other work on this machine or GPU and for one that runs hot; if it was never faster, try a "
                "larger training.micro_batch_size and training.recompute off."
            )
            self._tell(Alert(kind="slow", step=row["step"], what=what, remedy=remedy))
        if self._streaks["starved"].goes_on(waiting > _WAITING, seconds):
            what = f"{waiting:.0%} of a step goes into waiting for data"
            remedy = "Give the worker a faster disk for its scratch folder (FT_SCRATCH), more cores, or a nearer store."
            self._tell(Alert(kind="starved", step=row["step"], what=what, remedy=remedy))
        self._learn(rate)
        return self.alerts[told:]

    def _usual(self) -> tuple[float, str]:
        """The speed to expect: the estimate's or that of the run's own first steps, whichever is higher."""
        estimate = self._expected or 0.0
        own = statistics.median(self._first) if len(self._first) == _FIRST else 0.0
        return (own, "its first steps made") if own > estimate else (estimate, "the estimate expects")

    def _learn(self, rate: float) -> None:
        self._seen += 1
        if 1 < self._seen <= 1 + _FIRST:
            self._first.append(rate)

    def _tell(self, alert: Alert) -> None:
        if all(told.kind != alert.kind for told in self.alerts):
            self.alerts.append(alert)


class Streak:
    """How long something has been so without a break."""

    def __init__(self) -> None:
        self._steps, self._seconds = 0, 0.0

    def goes_on(self, so: bool, seconds: float) -> bool:
        """Whether it has been so for long enough, with this step of so many seconds."""
        self._steps, self._seconds = (self._steps + 1, self._seconds + seconds) if so else (0, 0.0)
        return self._steps >= STREAK and self._seconds >= STREAK_S


def alerts_of(rows: Iterable[Mapping[str, Any]], expected: float | None = None) -> list[Alert]:
    """All alerts of a run with these rows."""
    alarms = Alarms(expected)
    for row in rows:
        alarms.look(row)
    return alarms.alerts


def waiting_share(row: Mapping[str, Any]) -> float:
    """The share of a step's time that went into waiting for data."""
    return min(1.0, float(row.get("data_wait_s", 0.0)) * row["tokens_per_s"] / max(row["tokens"], 1))
