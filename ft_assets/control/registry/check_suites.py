"""The suites that a recipe names: registered, and enough for its gates."""

from ft_assets.control.registry.validation_suite import require_validation_suite
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.ungated import NO_GATES
from ft_assets.workers.suites.catalogue.install import add_own
from ft_assets.workers.suites.registered import list_suites, suites_of
from ft_resources.errors import BadRecipe
from ft_resources.store import Store
from ft_resources.strict import nearest


def require_suites(store: Store, recipe: Recipe, where: str, actor: str) -> None:
    """Raise BadRecipe for suites that are not registered, or that do not suffice for the recipe's gates and
    validation; those that come with the package are registered for ``actor``."""
    add_own(store, recipe.evaluation.suites, actor)
    known = list_suites(store)
    for key in recipe.evaluation.suites:
        if key not in known:
            raise BadRecipe(
                f"evaluation.suites: there is no suite {key!r}; {nearest(key, known)}",
                where=where,
                remedy="Name a registered suite, or register it first with: ft suite add FOLDER --key NAME.vN",
            )
    _require_safety_suite(store, recipe, where)
    require_validation_suite(store, recipe, where)


def _require_safety_suite(store: Store, recipe: Recipe, where: str) -> None:
    """Raise BadRecipe if the recipe's suites do not suffice to judge its gates."""
    safety = suites_of(store, recipe.evaluation.suites, "safety")
    if recipe.gates != NO_GATES and recipe.gates.safety is not None and not safety:
        raise BadRecipe(
            "gates.safety: safety is required, and evaluation.suites has no safety suite to measure it on",
            where=where,
            remedy="Add a suite of kind: safety to evaluation.suites, or leave gates.safety out.",
        )
    if len(safety) > 1:
        raise BadRecipe(
            f"evaluation.suites: {', '.join(safety)} are all safety suites, and a recipe may have only one",
            where=where,
            remedy="Put their prompts into one suite.",
        )
    if recipe.gates != NO_GATES and not suites_of(store, recipe.evaluation.suites, "suite"):
        raise BadRecipe(
            "evaluation.suites: there is no general suite, so a regression would not be detected",
            where=where,
            remedy="Also name a suite of questions with right answers, or write gates: none to try things out.",
        )
