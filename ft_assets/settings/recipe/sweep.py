"""The ``sweep`` block of a recipe."""

import sys
from typing import Annotated, Literal

from pydantic import Field, Strict, model_validator

from ft_resources.settings import Settings

MAX_VALUES = 100
Number = int | float
Value = int | float | Annotated[str, Field(max_length=200)] | Annotated[tuple[str, ...], Strict(False)] | None


class Range(Settings):
    """Range that a random search draws from: integers if both ends are integers, else floats."""

    low: Number = Field(description="Smallest value.")
    high: Number = Field(description="Largest value.")
    log: bool = Field(False, description="Draw uniformly on a logarithmic scale, as for learning rates.")

    @model_validator(mode="after")
    def _rises(self) -> "Range":
        # An integer may be too large to draw or to show.
        if max(abs(self.low), abs(self.high)) > sys.float_info.max:
            raise ValueError("no setting can be this large")
        if not self.low < self.high:
            raise ValueError(f"low ({self.low:g}) should be below high ({self.high:g})")
        if self.log and not self.low > 0:
            raise ValueError(f"log needs low above 0, not {self.low:g}")
        if self.low < 0:
            raise ValueError("no setting can be below 0")
        return self


Values = Annotated[tuple[Value, ...], Strict(False), Field(min_length=1, max_length=MAX_VALUES)]


class SweepSettings(Settings):
    """Several trainings instead of one; only the best on the validation split is evaluated."""

    search: Literal["grid", "random"] = Field(
        description="grid: every combination of the values; random: `trials` draws."
    )
    parameters: dict[str, Values | Range] = Field(
        min_length=1,
        max_length=20,
        description="Settings to try, by dotted path such as training.learning_rate: a list of values or, in a random "
        "search, {low, high, log}.",
    )
    trials: int | None = Field(None, ge=2, le=1000, description="Number of different draws (random search only).")
    seed: int = Field(17, ge=0, lt=2**31, description="Seed of the random search.")

    @model_validator(mode="after")
    def _search_has_what_it_needs(self) -> "SweepSettings":
        if self.search == "random" and self.trials is None:
            raise ValueError("a random search needs trials, the number of draws")
        if self.search == "grid" and self.trials is not None:
            raise ValueError("a grid has one trial per combination: leave trials out, or use a random search")
        for path, values in self.parameters.items():
            if isinstance(values, Range):
                if self.search == "grid":
                    raise ValueError(f"{path}: a grid needs a list of values; a range is for a random search")
            elif len({repr(value) for value in values}) != len(values):
                raise ValueError(f"{path}: a value is listed twice")
        return self
