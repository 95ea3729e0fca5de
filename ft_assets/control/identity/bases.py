"""The first step on the recipe's side: the base model."""

from ft_assets.control.identity.lookup import registered_recipe, require_made
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.settings.keys import SHARED, RecipeKey
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.work import WorkRequest


def base_model_request(artifacts: Artifacts, recipe_key: str) -> WorkRequest:
    stored = registered_recipe(artifacts, recipe_key)
    lock = stored.lock
    new_tokens = list(stored.recipe.new_tokens)
    return WorkRequest(
        asset="base_model",
        # A Hub model is mirrored once for all tenants; a tenant's own uploads and additions stay with the tenant.
        tenant=SHARED if lock.kind == "hub" and not new_tokens else RecipeKey.parse(recipe_key).owner,
        code_version=CODE_VERSIONS["base_model"],
        inputs=lock.inputs,
        params={"lock": lock.terms, **({"new_tokens": new_tokens} if new_tokens else {})},
        label=recipe_key,
    )


def base_model(artifacts: Artifacts, recipe_key: str) -> Artifact:
    return require_made(artifacts, base_model_request(artifacts, recipe_key))
