"""The keys of trials leave Dagster's list of recipes once their sweep is decided and nobody works with them any more.

``retiring/<sweep>.json`` is a reminder, gone when it is done. ``names/retired/<sweep>.json`` stays: what lists keys
again from the store (``ft rebuild``, registering the recipe once more) leaves these out. Artifacts stay in any case.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ft_assets.recipes.register import get_recipe, list_recipes
from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A sweep that has a winner somewhere, and the keys of its trials."""

    sweep: str
    trials: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Retire:
    """Take these keys off Dagster's list, and remember that they are."""

    sweep: str
    keys: tuple[str, ...]


def plan_retiring(
    decided: Iterable[Decided], *, listed: Collection[str], wanted: Collection[str], busy: Collection[str]
) -> list[Retire]:
    """What can be retired now.

    Args:
        decided: sweeps with a reminder.
        listed: recipe keys that Dagster knows.
        wanted: recipe keys of open submissions.
        busy: recipe keys with a run or a backfill that has not ended.
    """
    plans = []
    for item in decided:
        keys = {item.sweep, *item.trials}
        if not keys & set(wanted) and not keys & set(busy):
            plans.append(Retire(sweep=item.sweep, keys=tuple(key for key in item.trials if key in listed)))
    return plans


def mark_decided(store: Store, sweep: str) -> None:
    """Remember that the trials of ``sweep`` can go."""
    store.put_json(_reminder(sweep), {"sweep": sweep})


def decided_sweeps(store: Store) -> list[Decided]:
    """Sweeps whose trials can go."""
    names = sorted(entry.path.rsplit("/", 1)[-1].removesuffix(".json") for entry in store.entries("retiring"))
    return [Decided(sweep=name, trials=tuple(trial.key for trial in get_recipe(store, name).trials)) for name in names]


def record_retired(store: Store, sweep: str) -> None:
    """Say that the trials of ``sweep`` are not to be listed again by what only mirrors the store."""
    store.create_json(f"names/retired/{sweep}.json", {"sweep": sweep})


def forget_reminder(store: Store, sweep: str) -> None:
    """The keys are gone from Dagster's list."""
    store.delete(_reminder(sweep))


def is_retired(store: Store, sweep: str) -> bool:
    """Whether the trials of ``sweep`` were retired."""
    return store.exists(f"names/retired/{sweep}.json")


def listed_recipes(store: Store) -> list[str]:
    """The recipe keys that Dagster is to list: all that are registered but retired trials, sorted."""
    retired = {entry.path.rsplit("/", 1)[-1].removesuffix(".json") for entry in store.entries("names/retired")}
    gone = {trial.key for sweep in retired for trial in get_recipe(store, sweep).trials}
    return [key for key in list_recipes(store) if key not in gone]


def _reminder(sweep: str) -> str:
    return f"retiring/{sweep}.json"
