"""An uncertain number with bounds."""

import operator
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """The value is rarely below ``lower`` or above ``upper``; ``expected`` is the best single estimate."""

    lower: float
    expected: float
    upper: float

    def __post_init__(self) -> None:
        if not 0 <= self.lower <= self.expected <= self.upper:
            raise ValueError(f"bounds must rise from 0: {self.lower}, {self.expected}, {self.upper}")

    @staticmethod
    def of(function: Callable[..., float], *bounds: "Bounds") -> "Bounds":
        """A rising or falling function of uncertain numbers that are low, expected and high together."""
        expected = function(*(each.expected for each in bounds))
        ends = function(*(each.lower for each in bounds)), function(*(each.upper for each in bounds))
        return Bounds(lower=min(ends), expected=expected, upper=max(ends))

    def __add__(self, other: "Bounds") -> "Bounds":
        return Bounds.of(operator.add, self, other)

    def times(self, factor: float) -> "Bounds":
        """All three multiplied by ``factor``, which is at least 0."""
        return Bounds.of(lambda value: value * factor, self)


NOTHING = Bounds(lower=0.0, expected=0.0, upper=0.0)
