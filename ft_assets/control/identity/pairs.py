"""Whether a dataset and a recipe make a pair: names, and the form of the data that a method learns from."""

from contextlib import suppress

from ft_assets.checkpoints.methods import METHODS
from ft_assets.identity.datasets import approved_dataset, dataset
from ft_assets.identity.lookup import registered_recipe
from ft_assets.keys import DatasetKey, RecipeKey, check_pair
from ft_assets.recipes.models import Recipe
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import MissingInput, UserError

# What each training method can learn from: the ``form`` of a dataset.
LEARNS_FROM: dict[str, str] = {name: method.form for name, method in METHODS.items()}


def pair_recipe(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> Recipe:
    """The recipe of a pair that makes sense, settled as far as it settles itself. Raises UserError for others."""
    check_pair(DatasetKey.parse(dataset_key), RecipeKey.parse(recipe_key))
    return registered_recipe(artifacts, recipe_key).recipe.resolved()[0]


def require_fitting(artifacts: Artifacts, dataset_key: str, recipe: Recipe) -> None:
    """Raise UserError where the recipe's method learns from another kind of data than the dataset's; before it is
    curated, nobody knows."""
    with suppress(MissingInput):
        _require_form(dataset(artifacts, dataset_key), dataset_key, recipe)


def fitting_dataset(artifacts: Artifacts, dataset_key: str, recipe: Recipe) -> Artifact:
    """The curated dataset of a pair. Raises UserError where the recipe's method learns from another kind of data, and
    HeldForReview where the version may not be used yet."""
    curated = approved_dataset(artifacts, dataset_key)
    _require_form(curated, dataset_key, recipe)
    if not curated.facts["rows"]["validation"] and _is_chosen_by_validation(artifacts, recipe.key):
        raise UserError(
            f"a sweep chooses by validation loss, and dataset {dataset_key} has no validation rows",
            where=f"pair {dataset_key}|{recipe.key}",
            remedy="Add a version with a validation split (split.validation in its dataset.yaml), or use a recipe "
            "without a sweep.",
        )
    return curated


def _require_form(curated: Artifact, dataset_key: str, recipe: Recipe) -> None:
    wanted = LEARNS_FROM[recipe.method]
    if curated.facts["form"] != wanted:
        raise UserError(
            f"dataset {dataset_key} holds {curated.facts['form']} data, and {recipe.method} learns from {wanted} data",
            where=f"pair {dataset_key}|{recipe.key}",
            remedy=f"Use a recipe of another method, or a dataset of {wanted} data.",
        )


def _is_chosen_by_validation(artifacts: Artifacts, recipe_key: str) -> bool:
    stored = registered_recipe(artifacts, recipe_key)
    return bool(stored.trials) or stored.trial is not None
