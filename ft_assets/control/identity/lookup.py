"""Look up a registered recipe or an artifact, with a clear error if it is missing."""

from ft_assets.control.recipes.stored import StoredRecipe, get_recipe, get_resolved
from ft_assets.records.tombstones import require_tenant_alive
from ft_assets.settings.keys import RecipeKey
from ft_assets.settings.recipe.recipe import Recipe
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import MissingInput
from ft_resources.work import WorkRequest


def registered_recipe(artifacts: Artifacts, recipe_key: str) -> StoredRecipe:
    return get_recipe(artifacts.store, _alive(artifacts, recipe_key))


def resolved_recipe(artifacts: Artifacts, recipe_key: str) -> Recipe:
    """The registered recipe's settings, with ``auto`` resolved if it needs no data."""
    return get_resolved(artifacts.store, _alive(artifacts, recipe_key))


def _alive(artifacts: Artifacts, recipe_key: str) -> str:
    key = RecipeKey.parse(recipe_key)
    if key.tenant:
        require_tenant_alive(artifacts.store, key.tenant)
    return str(key)


def require_made(artifacts: Artifacts, request: WorkRequest) -> Artifact:
    found = artifacts.find(request.address)
    if found is None:
        raise MissingInput(request.asset, request.label)
    return found
