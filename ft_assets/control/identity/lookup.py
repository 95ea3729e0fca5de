"""Look up a registered recipe or an artifact, with a clear error if it is missing."""

from ft_assets.control.recipes.stored import StoredRecipe, get_recipe
from ft_assets.records.tombstones import require_tenant_alive
from ft_assets.settings.keys import RecipeKey
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import MissingInput
from ft_resources.work import WorkRequest


def registered_recipe(artifacts: Artifacts, recipe_key: str) -> StoredRecipe:
    key = RecipeKey.parse(recipe_key)
    if key.tenant:
        require_tenant_alive(artifacts.store, key.tenant)
    return get_recipe(artifacts.store, str(key))


def require_made(artifacts: Artifacts, request: WorkRequest) -> Artifact:
    found = artifacts.find(request.address)
    if found is None:
        raise MissingInput(request.asset, request.label)
    return found
