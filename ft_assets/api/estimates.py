"""What a training would take, before anything of it runs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ft_assets.api.defaults import store_or_default, tenants_or_default
from ft_assets.api.own_keys import own_dataset, own_recipe
from ft_assets.control.lines.walls import walls_of_pair
from ft_assets.control.planning.estimate import estimate_file, estimate_training
from ft_assets.control.planning.estimated import Estimate
from ft_assets.control.planning.known_base import KnownBase, base_of_file, base_of_recipe
from ft_assets.control.planning.provable import Provable as Provable
from ft_assets.control.planning.provable import provable
from ft_assets.control.recipes.load import load_recipe
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.recipes.window import within_context
from ft_assets.settings.keys import DatasetKey, RecipeKey, check_pair
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import Artifacts
from ft_resources.launchers.choice import gpus_missing
from ft_resources.lazy import load
from ft_resources.store import Store

_LOOK_AHEAD = "ft_assets.control.planning.ahead:look_ahead"


def estimate(
    dataset: str,
    recipe: Path | str,
    *,
    gates: Sequence[str] = (),
    store: Store | None = None,
    tenants: TenantsFile | None = None,
) -> Estimate:
    """Tokens, steps, time, memory and price of training a recipe, registered or a YAML file, on a dataset version.

    Each number has its source; ``notes`` come from a sample of the rows and from this machine, ``provable`` says what
    holdout and suites can show, ``walls`` what keeps a registered recipe's result out of production, with the
    submission's own ``gates``. Raises UserError for unknown keys and for an invalid pair, BadRecipe and BadBase for an
    invalid file, BadData for rows that the template refuses or that are too long.
    """
    artifacts, tenants = Artifacts(store_or_default(store)), tenants_or_default(tenants)
    dataset = own_dataset(dataset)
    if isinstance(recipe, Path) or recipe.endswith((".yaml", ".yml")):
        path = Path(recipe)
        found = estimate_file(artifacts, tenants, dataset, path)
        unregistered = load_recipe(path)
        base = base_of_file(unregistered, path)
        return with_notes(artifacts, found, dataset, within_context(unregistered, base.context), base)
    recipe = own_recipe(artifacts.store, recipe)
    check_pair(DatasetKey.parse(dataset), RecipeKey.parse(recipe))
    stored, base = get_recipe(artifacts.store, recipe), base_of_recipe(artifacts, recipe)
    found = estimate_training(artifacts, tenants, dataset, recipe)
    found = with_notes(artifacts, found, dataset, stored.recipe, base)
    walls = walls_of_pair(artifacts.store, tenants, dataset, stored, gates=gates, shown=found.provable)
    return replace(found, walls=walls)


def with_notes(artifacts: Artifacts, found: Estimate, dataset: str, recipe: Recipe, base: KnownBase) -> Estimate:
    """The estimate with what can be known of the rows, the gates and this machine before anything runs.

    Raises BadData.
    """
    # It needs tokenizers and kernels, which reading names should not have to import.
    notes = [] if found.counted else load(_LOOK_AHEAD)(artifacts, dataset, recipe, base)
    missing = gpus_missing(recipe.hardware.sizes[-1])
    shown = provable(artifacts, dataset, recipe)
    return replace(found, notes=(*notes, *([missing] if missing else [])), provable=shown)
