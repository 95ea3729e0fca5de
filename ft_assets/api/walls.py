"""Reasons that keep results out of production, for pages that show a dataset, a pair or an adapter."""

from collections.abc import Sequence

from ft_assets.api.adapters import find_adapter
from ft_assets.api.defaults import store_or_default, tenants_or_default
from ft_assets.control.lines import walls
from ft_assets.control.planning.provable import provable
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import Artifacts
from ft_resources.store import Store


def walls_of_dataset(dataset: str, *, store: Store | None = None) -> tuple[str, ...]:
    """The lacks of any recipe's results with this version for production, as sentences. Raises UserError for a version
    that is unknown or deleted."""
    return walls.walls_of_dataset(Artifacts(store_or_default(store)), dataset)


def walls_of_pair(
    dataset: str,
    recipe: str,
    *,
    gates: Sequence[str] = (),
    store: Store | None = None,
    tenants: TenantsFile | None = None,
) -> tuple[str, ...]:
    """The same of a submission with its own ``gates``. Raises UserError for unknown or deleted keys."""
    artifacts = Artifacts(store_or_default(store))
    stored = get_recipe(artifacts.store, recipe)
    shown = provable(artifacts, dataset, stored.recipe)
    return walls.walls_of_pair(artifacts.store, tenants_or_default(tenants), dataset, stored, gates=gates, shown=shown)


def walls_of_adapter(source: str, *, store: Store | None = None, tenants: TenantsFile | None = None) -> tuple[str, ...]:
    """The same of an adapter or ungated result at an address. Raises UserError if it or its base is gone."""
    store = store_or_default(store)
    adapter = find_adapter(source, store=store)
    return walls.walls_of_adapter(Artifacts(store), tenants_or_default(tenants), adapter)
