"""A number that is not known exactly."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """``lower`` is hardly undercut, ``upper`` hardly passed, ``expected`` is the single best guess."""

    lower: float
    expected: float
    upper: float

    def __post_init__(self) -> None:
        if not 0 <= self.lower <= self.expected <= self.upper:
            raise ValueError(f"bounds must rise from 0: {self.lower}, {self.expected}, {self.upper}")

    def __add__(self, other: "Bounds") -> "Bounds":
        return Bounds(
            lower=self.lower + other.lower, expected=self.expected + other.expected, upper=self.upper + other.upper
        )

    def times(self, factor: float) -> "Bounds":
        """All three multiplied by ``factor``, which is at least 0."""
        return Bounds(lower=self.lower * factor, expected=self.expected * factor, upper=self.upper * factor)


NOTHING = Bounds(lower=0.0, expected=0.0, upper=0.0)
