"""A gate's verdict, and what all gates share. No numpy here: the code location loads this."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from ft_assets.workers.evals.power import minimum_detectable, samples_to_decide
from ft_resources.strict_model import StrictModel

# With fewer samples an interval says too little.
MIN_ROWS = 10
# A drop of exactly the limit passes; 0.52 - 0.50 is not exactly 2 points in binary.
EPSILON = 1e-9

Outcome = Literal["pass", "fail", "inconclusive", "not required"]
Numbers = dict[str, float | int]
_WORST_FIRST: tuple[Outcome, ...] = ("fail", "inconclusive", "pass", "not required")


class Waiver(StrictModel):
    """Who waived an inconclusive verdict, when and why."""

    actor: str
    note: str
    at: str


class Verdict(StrictModel):
    """A gate's outcome, and why.

    ``numbers`` maps what was judged (suite or metric) to its figures, in the reason's unit: always ``n``,
    ``interval_low``, ``interval_high`` and ``minimum_detectable``. Shares are fractions, suites are in points.
    """

    gate: str
    outcome: Outcome
    reason: str
    numbers: dict[str, Numbers] = Field(default={})
    waiver: Waiver | None = None

    @property
    def lets_through(self) -> bool:
        """Whether this gate does not block an adapter."""
        waived = self.outcome == "inconclusive" and self.waiver is not None
        return waived or self.outcome in ("pass", "not required")


Finding = tuple[Outcome, str]


def worst(gate: str, findings: Sequence[Finding], numbers: dict[str, Numbers]) -> Verdict:
    """The verdict of a gate that judges several things: the worst outcome, whose reasons come first."""
    ordered = sorted(findings, key=lambda finding: _WORST_FIRST.index(finding[0]))
    return Verdict(gate=gate, outcome=ordered[0][0], reason="; ".join(text for _, text in ordered), numbers=numbers)


def interval_numbers(n: int, interval: tuple[float, float]) -> Numbers:
    """The figures of every judged number, with the smallest change that ``n`` samples detect 8 times out of 10."""
    low, high = interval
    half = max(0.0, (high - low) / 2)
    return {"n": n, "interval_low": low, "interval_high": high, "minimum_detectable": minimum_detectable(half)}


def more(n: int, half_width: float, room: float, what: str, *, least: int | None = 0) -> str:
    """How many more samples would decide, in words; ``least`` are needed in all, None if no number would do."""
    narrow = samples_to_decide(n, half_width, room)
    needed = None if narrow is None or least is None else max(narrow, least)
    return f"about {needed - n:,} more {what} would decide" if needed else f"no number of {what} would decide"
