"""A trial is trained, and nothing else is done with it."""

from ft_resources.errors import UserError
from ft_resources.store import Store


def refuse_trial(store: Store, recipe_key: str) -> None:
    """Raise UserError for a trial of a sweep: a holdout that every trial was scored on would have chosen the winner."""
    trial = (store.find_json(f"names/recipe/{recipe_key}.json") or {}).get("trial")
    if trial:
        raise UserError(
            f"{recipe_key} is trial {trial['number']} of the sweep {trial['sweep']}, and only a sweep's winner is "
            "scored on the holdout",
            where=f"recipe key {recipe_key!r}",
            remedy=f"Ask for the sweep itself: ft run DATASET {trial['sweep']}",
        )
