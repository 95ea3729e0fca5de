"""The ``sweep`` block of a recipe."""

import sys
from typing import Annotated, Literal

from pydantic import Field, Strict, model_validator

from ft_assets.recipes.settings import Settings

MAX_VALUES = 100
Number = int | float
Value = int | float | Annotated[str, Field(max_length=200)] | Annotated[tuple[str, ...], Strict(False)] | None


class Range(Settings):
    """Where a random search draws from: whole numbers where both ends are whole, else any."""

    low: Number = Field(description="Smallest value.")
    high: Number = Field(description="Largest value.")
    log: bool = Field(False, description="Draw the logarithm evenly, which suits learning rates.")

    @model_validator(mode="after")
    def _rises(self) -> "Range":
        # Whole numbers may be larger than any that can be drawn or shown.
        if max(abs(self.low), abs(self.high)) > sys.float_info.max:
            raise ValueError("no setting is so large")
        if not self.low < self.high:
            raise ValueError(f"low ({self.low:g}) should be below high ({self.high:g})")
        if self.log and not self.low > 0:
            raise ValueError(f"log needs a low above 0, not {self.low:g}")
        if self.low < 0:
            raise ValueError("no setting is below 0")
        return self


Values = Annotated[tuple[Value, ...], Strict(False), Field(min_length=1, max_length=MAX_VALUES)]


class SweepSettings(Settings):
    """Several trainings in place of one: the best on the validation split is evaluated, once."""

    search: Literal["grid", "random"] = Field(
        description="grid: every combination of the values; random: `trials` draws."
    )
    parameters: dict[str, Values | Range] = Field(
        min_length=1,
        max_length=20,
        description="Settings to try, by dotted path such as training.learning_rate: a list of values or, in a random "
        "search, {low, high, log}.",
    )
    trials: int | None = Field(None, ge=2, le=1000, description="random: how many different draws. grid: leave it out.")
    seed: int = Field(17, ge=0, lt=2**31, description="Seeds the draws of a random search.")

    @model_validator(mode="after")
    def _search_has_what_it_needs(self) -> "SweepSettings":
        if self.search == "random" and self.trials is None:
            raise ValueError("a random search needs trials: how many to draw")
        if self.search == "grid" and self.trials is not None:
            raise ValueError("a grid has one trial for each combination: leave trials out, or search at random")
        for path, values in self.parameters.items():
            if isinstance(values, Range):
                if self.search == "grid":
                    raise ValueError(f"{path}: a grid needs a list of values; a range is for a random search")
            elif len({repr(value) for value in values}) != len(values):
                raise ValueError(f"{path}: lists a value twice")
        return self
