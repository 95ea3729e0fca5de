"""Check the suite that selects among a training's weights: it must be independent of the gates' suites."""

from pathlib import Path
from tempfile import TemporaryDirectory

from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.suites.overlap import shared_items
from ft_assets.workers.suites.registered import get_suite, role_of
from ft_assets.workers.suites.suites import scored_items, scored_texts
from ft_resources.artifacts import Address, Artifacts, InputRef
from ft_resources.errors import BadRecipe, UserError
from ft_resources.store import Store

_FIELD = "evaluation.validation_suite"


def require_validation_suite(store: Store, recipe: Recipe, where: str) -> None:
    """Raise BadRecipe if the recipe's validation suite is missing, is not a general one, or shares items with the
    suites of its gates, all of which are registered."""
    wanted = recipe.evaluation.validation_suite
    if wanted is None:
        return
    try:
        suite = get_suite(store, wanted.suite)
    except UserError as error:
        raise BadRecipe(f"{_FIELD}: {error.what}", where=where, remedy=error.remedy) from error
    if role_of(suite) != "suite":
        raise BadRecipe(
            f"{_FIELD}: {wanted.suite} is not a general suite: it has no right answers by which weights could be "
            "compared",
            where=where,
            remedy="Name a suite of questions with right answers.",
        )
    with TemporaryDirectory(prefix="ft-suites-") as scratch:
        for key in recipe.evaluation.suites:
            _require_apart(store, wanted.suite, suite, key, Path(scratch), where)


def _require_apart(store: Store, wanted: str, suite: InputRef, key: str, scratch: Path, where: str) -> None:
    other = get_suite(store, key)
    if other.digest == suite.digest:
        raise BadRecipe(
            f"{_FIELD}: {wanted} is the same suite as {key}, which the gates use",
            where=where,
            remedy="Name a suite of other items.",
        )
    ours, theirs = (Artifacts(store).get(Address.parse(ref.address)).folder(scratch) for ref in (suite, other))
    items = scored_items(ours)
    shared = shared_items(items, scored_texts(theirs))
    if shared:
        raise BadRecipe(
            f"{_FIELD}: {len(shared)} of the {len(items)} items of {wanted} are also in {key}, which the gates use; "
            f"the first of them is item {shared[0]}",
            where=where,
            remedy="Register a suite without them under a new key, and name that.",
        )
