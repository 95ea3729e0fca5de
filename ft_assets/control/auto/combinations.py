"""Settings that do not work together, each with the reason and what to write instead.

Checked twice: at registration with the recipe alone, and for a pair with data and base. A setting that is still
``auto`` is never an error: the rules choose none of these combinations.
"""

from ft_assets.control.auto.adapter_combinations import ADAPTERS
from ft_assets.control.auto.base_combinations import BASES
from ft_assets.control.auto.combination import Combination
from ft_assets.control.auto.float8_combinations import FLOAT8
from ft_assets.control.auto.hardware_combinations import HARDWARE
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.catalogue.refusal import Refusal
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.model_size.known import Known
from ft_resources.errors import BadRecipe

COMBINATIONS = (*FLOAT8, *HARDWARE, *ADAPTERS, *BASES)


def require_possible(recipe: Recipe, known: Known | None, where: str = "") -> None:
    """Raise BadRecipe for the first invalid combination in ``recipe``. ``where`` names the file or pair."""
    found: list[tuple[Combination | Refusal, str]] = [(one, one.found(recipe, known)) for one in COMBINATIONS]
    found += [(one, one.found(recipe, recipe.method)) for one in METHODS[recipe.method].all_refusals]
    for one, problem in found:
        if problem:
            raise BadRecipe(problem, where=f"{where}, {one.where}" if where else one.where, remedy=one.instead)
