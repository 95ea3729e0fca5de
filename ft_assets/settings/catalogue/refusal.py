"""A setting that is incompatible with a method or its data form."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ft_assets.settings.ungated import NO_GATES


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """Values of one setting that a recipe may not have.

    Args:
        where: dotted path of the setting in the recipe.
        refused: whether a given value is refused.
        problem: what is wrong, as a clause; ``{value}`` and ``{method}`` are filled in.
        instead: what to do about it, as a sentence.
    """

    where: str
    refused: Callable[[Any], bool]
    problem: str
    instead: str

    def found(self, recipe: Any, method: str) -> str:
        """What is wrong with ``recipe``, which trains by ``method``; "" if nothing is."""
        value = recipe
        for name in self.where.split("."):
            if value == NO_GATES:
                return ""
            value = getattr(value, name)
        return self.problem.format(value=value, method=method) if self.refused(value) else ""
