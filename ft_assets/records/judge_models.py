"""Local judge models in the store: the base of a registered recipe, or a base that is stored already."""

from collections.abc import Callable

from ft_assets.records.uploads import upload_address
from ft_assets.settings.keys import SHARED, RecipeKey
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import BadRecipe

# Asset name of a folder that a registration uploaded.
_UPLOAD = "base_upload"
_RECIPE = "recipe:"


def named_recipe(reference: str, owner: str) -> str | None:
    """Key of the recipe whose base ``reference`` names, None if it names a stored folder.

    Raises BadRecipe, before anything is read, for a recipe of a tenant other than ``owner``.
    """
    if not reference.startswith(_RECIPE):
        return None
    key = RecipeKey.parse(reference.removeprefix(_RECIPE))
    if key.owner not in (owner, SHARED):
        raise BadRecipe(
            f"{reference} belongs to another tenant",
            where="evaluation",
            remedy="Name a recipe of the same tenant, or a shared one.",
        )
    return str(key)


def local_model(
    artifacts: Artifacts, reference: str, owner: str, base_of: Callable[[Artifacts, str], Artifact]
) -> Artifact:
    """The model that ``reference`` names in a recipe of ``owner``; ``base_of`` looks up a recipe's base.

    Raises BadRecipe if there is no such model or the owner may not use it, and what ``base_of`` raises.
    """
    recipe = named_recipe(reference, owner)
    if recipe is not None:
        return base_of(artifacts, recipe)
    content = reference.removeprefix("folder:sha256:")
    for tenant in dict.fromkeys((owner, SHARED)):
        found = artifacts.find(upload_address(tenant, _UPLOAD, content))
        if found is not None:
            return found
    raise BadRecipe(
        f"this store has no folder with digest {content}",
        where="evaluation",
        remedy="Register a recipe on it once (base: folder:PATH), or name the base of a recipe (recipe:KEY).",
    )
