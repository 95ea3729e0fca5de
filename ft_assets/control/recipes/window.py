"""A recipe's windows and the context of its base: no window is longer than the context."""

from ft_assets.settings.recipe.recipe import Recipe
from ft_resources.errors import BadRecipe


def within_context(recipe: Recipe, context: int | None, where: str = "") -> Recipe:
    """``recipe`` with the default of ``packing.max_length`` lowered to the ``context`` of its base (None: not known).

    Raises BadRecipe for a longer one that its author wrote; ``where`` names the file.
    """
    length = recipe.packing.max_length
    if context is None or length <= context:
        return recipe
    if "max_length" in recipe.packing.model_fields_set:
        raise BadRecipe(
            f"packing.max_length is {length}, but the base's context length is {context} tokens "
            "(max_position_embeddings in its config.json)",
            where=f"{where}, packing.max_length" if where else "packing.max_length",
            remedy=f"Write at most {context} (packing: {{max_length: {context}}}), or take a base with a longer "
            "context.",
        )
    packing = recipe.packing.model_copy(update={"max_length": context})
    # It still counts as a default, so that the same file can be registered again.
    packing.model_fields_set.discard("max_length")
    return recipe.model_copy(update={"packing": packing})
