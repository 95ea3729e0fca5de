"""What a training would take, before anything of it runs."""

from pathlib import Path

from ft_assets.api.defaults import store_or_default, tenants_or_default
from ft_assets.control.planning.estimate import estimate_file, estimate_training
from ft_assets.control.planning.estimated import Estimate
from ft_assets.settings.keys import DatasetKey, RecipeKey, check_pair
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import Artifacts
from ft_resources.store import Store


def estimate(
    dataset: str, recipe: Path | str, *, store: Store | None = None, tenants: TenantsFile | None = None
) -> Estimate:
    """Tokens, steps, time, memory and price of training a recipe, registered or a YAML file, on a dataset version.

    Each number says what it stands on. Raises UserError for keys that were never added and for a pair that makes no
    sense, BadRecipe and BadBase for what is wrong with a file.
    """
    artifacts, tenants = Artifacts(store_or_default(store)), tenants_or_default(tenants)
    if isinstance(recipe, Path) or recipe.endswith((".yaml", ".yml")):
        return estimate_file(artifacts, tenants, dataset, Path(recipe))
    check_pair(DatasetKey.parse(dataset), RecipeKey.parse(recipe))
    return estimate_training(artifacts, tenants, dataset, recipe)
