"""Changes to a recipe, as new values by its paths; empty where ``auto`` chooses the setting."""

import math
from typing import Any

from ft_assets.control.rejections.curves import FEW_STEPS
from ft_assets.settings.recipe.recipe import Recipe

MOST_EPOCHS = 1000


def slower(recipe: Recipe) -> dict[str, Any]:
    """Half the learning rate."""
    rate = recipe.training.learning_rate
    return {} if rate == "auto" else {"training.learning_rate": float(f"{rate / 2:.3g}")}


def smaller(recipe: Recipe) -> dict[str, Any]:
    """Half the rank, and half of alpha with it where updates are scaled by alpha / rank."""
    rank, alpha = recipe.lora.rank, recipe.lora.alpha
    if recipe.variant == "full" or rank == "auto" or rank < 2:
        return {}
    if alpha == "auto" or recipe.lora.use_rslora:
        return {"lora.rank": rank // 2}
    return {"lora.rank": rank // 2, "lora.alpha": max(1, alpha // 2)}


def milder(recipe: Recipe) -> dict[str, Any]:
    """Changes against memorisation."""
    if recipe.variant == "full":
        decay = recipe.training.weight_decay
        return {**slower(recipe), **({"training.weight_decay": 0.1} if decay < 0.1 else {})}
    dropout = {"lora.dropout": 0.1} if recipe.lora.dropout < 0.1 else {}
    return {**slower(recipe), **smaller(recipe), **dropout}


def longer(recipe: Recipe, steps: int) -> dict[str, Any]:
    """Twice the training, or as often as ``FEW_STEPS`` takes; if steps are limited, the limit is raised as well."""
    times = max(2, math.ceil(FEW_STEPS / steps)) if steps else 2
    most = recipe.training.max_steps
    limited = {"training.max_steps": times * steps} if most is not None and most <= steps else {}
    return {**limited, **epochs(recipe, times)}


def epochs(recipe: Recipe, times: float) -> dict[str, Any]:
    """``times`` as many epochs; nothing where ``auto`` chooses them."""
    asked = recipe.training.epochs
    if asked == "auto":
        return {}
    changed = min(MOST_EPOCHS, max(1, int(asked * times)))
    return {"training.epochs": changed} if changed != asked else {}
