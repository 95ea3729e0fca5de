"""Local models that judge, found in the store: the base of a registered recipe, or a base that was stored before."""

from collections.abc import Callable

from ft_assets.keys import SHARED, RecipeKey
from ft_assets.recipes.upload import upload_address
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import BadRecipe

# The asset of a folder that a registration uploaded.
_UPLOAD = "base_upload"
_RECIPE = "recipe:"


def named_recipe(reference: str, owner: str) -> str | None:
    """The key of the recipe whose base ``reference`` names, None where it names a stored folder.

    Raises BadRecipe for a recipe of another tenant than ``owner``, before anything is looked at.
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
    """The model that ``reference`` names in a recipe of ``owner``; ``base_of`` finds a recipe's base.

    Raises BadRecipe where there is none that the owner may use, and what ``base_of`` raises.
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
