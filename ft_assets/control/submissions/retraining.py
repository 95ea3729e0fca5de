"""Which lines need a new training: a pure plan over subscriptions, newest versions and submissions."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True)
class LineState:
    """A subscribed line: its newest dataset version ("" if there is none) and its current recipe."""

    tenant: str
    dataset: str
    recipe: str
    submitted: bool


@dataclass(frozen=True, kw_only=True)
class Wish:
    """A pair that should be submitted."""

    dataset: str
    recipe: str


def plan_retraining(lines: Iterable[LineState]) -> list[Wish]:
    """Pairs of newest dataset version and current recipe that were never submitted, in a stable order."""
    wishes = {
        (line.dataset, line.recipe): Wish(dataset=line.dataset, recipe=line.recipe)
        for line in lines
        if line.dataset and not line.submitted
    }
    return [wishes[pair] for pair in sorted(wishes)]


def take_budget(store: Store, day: date, per_day: int, wish: Wish) -> bool:
    """Take one of the day's retraining slots, a create-only record each; False if none is left."""
    prefix = f"retrainings/{day.isoformat()}"
    taken = {entry.path for entry in store.entries(prefix)}
    for number in range(1, per_day + 1):
        path = f"{prefix}/{number:04d}.json"
        if path not in taken and store.create_json(path, {"dataset": wish.dataset, "recipe": wish.recipe}):
            return True
    return False
