"""What a store lacks for trustworthy gates."""

from ft_assets.api.defaults import store_or_default
from ft_assets.control.planning.lacks import Lack as Lack
from ft_assets.control.planning.lacks import find_lacks
from ft_resources.artifacts import Artifacts
from ft_resources.store import Store


def doctor(*, tenant: str = "", store: Store | None = None) -> list[Lack]:
    """What is missing or too small for gates to be believed: suites, the newest version of each dataset, recipes.

    Each says what follows from it and what mends it. Only records are read. With ``tenant`` only its datasets and
    recipes, and the shared ones.
    """
    return find_lacks(Artifacts(store_or_default(store)), tenant)
