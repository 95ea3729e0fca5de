"""One combination of settings that does not work."""

from collections.abc import Callable
from dataclasses import dataclass

from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.model_size.known import Known


@dataclass(frozen=True, kw_only=True, slots=True)
class Combination:
    """``found`` returns what is wrong with a resolved recipe, or ""; ``instead`` is what to do about it."""

    where: str
    found: Callable[[Recipe, Known | None], str]
    instead: str
