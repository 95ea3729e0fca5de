"""Whether a base has the modules that a recipe names for adapters, looked at once the base is there."""

from itertools import chain
from typing import Any

from ft_assets.recipes.training import LoraSettings
from ft_resources.errors import BadRecipe


def require_targets(model: Any, lora: LoraSettings) -> None:
    """Raises BadRecipe for a name in ``lora.target_modules`` that nothing in ``model`` has, as PEFT compares names.

    PEFT passes over such a name where others fit. What a recipe alone tells is refused earlier (``combinations.py``).
    """
    if isinstance(lora.target_modules, str):
        return
    names = [name for name, _ in chain(model.named_modules(), model.named_parameters())]
    for target in lora.target_modules:
        if not any(name == target or name.endswith(f".{target}") for name in names):
            raise BadRecipe(
                f"the base has no module {target!r}",
                where="lora.target_modules",
                remedy="Name modules of this base, by their last names or in full, or use all-linear.",
            )
