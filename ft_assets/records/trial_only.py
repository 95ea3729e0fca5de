"""Trials of a sweep are only trained."""

from ft_assets.records.names import RECIPE
from ft_resources.errors import UserError
from ft_resources.store import Store


def refuse_trial(store: Store, recipe_key: str) -> None:
    """Raise UserError for a sweep's trial: if every trial were scored on the holdout, it would choose the winner."""
    trial = (RECIPE.find(store, recipe_key) or {}).get("trial")
    if trial:
        raise UserError(
            f"{recipe_key} is trial {trial['number']} of the sweep {trial['sweep']}, and only a sweep's winner is "
            "scored on the holdout",
            where=f"recipe key {recipe_key!r}",
            remedy=f"Ask for the sweep itself: ft run DATASET {trial['sweep']}",
        )
