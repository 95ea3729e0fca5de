"""Backfills: Dagster materializes the whole graph for many pairs of dataset versions and recipes."""

from collections.abc import Sequence

from ft_assets.api.defaults import Orchestrator, orchestrator_or_default, store_or_default
from ft_assets.control.submissions.submit import check_wish
from ft_assets.settings.environment import max_pairs
from ft_resources.errors import UserError
from ft_resources.store import Store


def backfill(
    datasets: Sequence[str],
    recipes: Sequence[str],
    *,
    allow_pairs: int = 0,
    store: Store | None = None,
    orchestrator: Orchestrator | None = None,
) -> str:
    """Ask Dagster for every asset of each pair of a dataset version and a recipe, from raw_dataset to adapter.

    Its daemon launches the runs in the order of the graph; what exists already is not made again. Returns the
    backfill's id.

    Args:
        datasets: keys of registered dataset versions.
        recipes: keys of registered recipes.
        allow_pairs: a larger limit than ``FT_MAX_PAIRS`` for this backfill.

    Raises UserError for unknown or retired keys, for a pair that can never work, and for too many pairs.
    """
    store = store_or_default(store)
    pairs, limit = len(datasets) * len(recipes), max(max_pairs(), allow_pairs)
    if not pairs:
        raise UserError(
            "there is no pair to train", where="backfill", remedy="Name at least one dataset version and one recipe."
        )
    if pairs > limit:
        raise UserError(
            f"{len(datasets)} dataset versions and {len(recipes)} recipes are {pairs} trainings, and the limit is "
            f"{limit}",
            where="backfill",
            remedy=f"Choose fewer, or allow them: ft backfill … --allow-pairs {pairs}",
        )
    for dataset in datasets:
        for recipe in recipes:
            check_wish(store, dataset, recipe)
    return orchestrator_or_default(orchestrator).backfill(datasets, recipes, allow_pairs)
