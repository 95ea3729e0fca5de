"""Retiring trial keys: they leave Dagster's partitions once their sweep is decided and nothing uses them any more.

``retiring/<sweep>.json`` is a reminder that is deleted when done. ``names/retired/<sweep>.json`` is permanent: whatever
lists keys from the store again (``ft rebuild``, registering the recipe again) leaves these out. Artifacts are kept.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ft_assets.control.recipes.stored import get_recipe, list_recipes
from ft_assets.records.names import RETIRED
from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A sweep that was decided on some dataset, and the keys of its trials."""

    sweep: str
    trials: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Retire:
    """Keys to remove from Dagster's partitions and to record as retired."""

    sweep: str
    keys: tuple[str, ...]


def plan_retiring(
    decided: Iterable[Decided], *, listed: Collection[str], wanted: Collection[str], busy: Collection[str]
) -> list[Retire]:
    """What can be retired now.

    Args:
        decided: sweeps that have a reminder.
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
    """Write the reminder that the trials of ``sweep`` can be retired."""
    store.put_json(_reminder(sweep), {"sweep": sweep})


def decided_sweeps(store: Store) -> list[Decided]:
    """Sweeps whose trials can be retired."""
    names = sorted(entry.path.rsplit("/", 1)[-1].removesuffix(".json") for entry in store.entries("retiring"))
    return [Decided(sweep=name, trials=tuple(trial.key for trial in get_recipe(store, name).trials)) for name in names]


def record_retired(store: Store, sweep: str) -> None:
    """Record that mirrors of the store must not list the trials of ``sweep`` again."""
    RETIRED.create(store, sweep, {"sweep": sweep})


def forget_reminder(store: Store, sweep: str) -> None:
    """Delete the reminder: the keys have been removed from Dagster's partitions."""
    store.delete(_reminder(sweep))


def is_retired(store: Store, sweep: str) -> bool:
    """Whether the trials of ``sweep`` were retired."""
    return RETIRED.exists(store, sweep)


def listed_recipes(store: Store) -> list[str]:
    """The recipe keys that Dagster should list: all registered ones except retired trials, sorted."""
    gone = {trial.key for sweep in RETIRED.keys(store) for trial in get_recipe(store, sweep).trials}
    return [key for key in list_recipes(store) if key not in gone]


def _reminder(sweep: str) -> str:
    return f"retiring/{sweep}.json"
