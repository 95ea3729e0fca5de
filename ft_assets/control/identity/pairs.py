"""Whether a dataset and a recipe fit together: tenants, and the data form that the method needs."""

from contextlib import suppress

from ft_assets.control.identity.datasets import approved_dataset, dataset
from ft_assets.control.identity.lookup import registered_recipe, resolved_recipe
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.keys import DatasetKey, RecipeKey, check_pair
from ft_assets.settings.recipe.recipe import Recipe
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import MissingInput, UserError


def pair_recipe(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> Recipe:
    """The recipe of a valid pair, with ``auto`` resolved if it needs no data. Raises UserError for an invalid pair."""
    check_pair(DatasetKey.parse(dataset_key), RecipeKey.parse(recipe_key))
    return resolved_recipe(artifacts, recipe_key)


def require_fitting(artifacts: Artifacts, dataset_key: str, recipe: Recipe) -> None:
    """Raise UserError if the recipe's method needs another data form than the dataset's. Before curation the form is
    unknown, and any passes."""
    with suppress(MissingInput):
        _require_form(dataset(artifacts, dataset_key), dataset_key, recipe)


def fitting_dataset(artifacts: Artifacts, dataset_key: str, recipe: Recipe) -> Artifact:
    """The curated dataset of a pair. Raises UserError if the recipe's method needs another data form, and
    HeldForReview if the version may not be used yet."""
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
    wanted = METHODS[recipe.method].form.name
    if curated.facts["form"] != wanted:
        raise UserError(
            f"dataset {dataset_key} has {curated.facts['form']} data, and {recipe.method} needs {wanted} data",
            where=f"pair {dataset_key}|{recipe.key}",
            remedy=f"Use a recipe of another method, or a dataset of {wanted} data.",
        )


def _is_chosen_by_validation(artifacts: Artifacts, recipe_key: str) -> bool:
    stored = registered_recipe(artifacts, recipe_key)
    return bool(stored.trials) or stored.trial is not None
