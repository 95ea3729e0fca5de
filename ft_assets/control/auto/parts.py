"""Which part of a GPU a training gets, where its recipe names several."""

from ft_assets.control.auto.fitting import Fit, best_fit
from ft_assets.control.auto.rules import Choice
from ft_assets.settings.gpus import find_hardware
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.model_size.known import Known


def smallest_gpu(recipe: Recipe, known: Known) -> Choice:
    """The part with the least memory that surely holds the training, or the recipe's own type if no part does.

    In the part it must be as exact and recompute as little as on a whole GPU: what it computes again is paid for, and
    the result must not depend on where there was room. Its micro-batch may be smaller, which fills a part too.
    """
    whole = recipe.hardware.gpu_type
    wanted = _costs(best_fit(recipe, known))
    for part in sorted(recipe.hardware.parts, key=_memory):
        fit = best_fit(on_gpu_type(recipe, part), known)
        if fit.sure and _costs(fit) == wanted:
            return Choice(part, f"the smallest part that is certain to fit the training, {fit.why}")
    return Choice(whole, f"no part is certain to fit the training with the settings of a whole {whole}")


def on_gpu_type(recipe: Recipe, gpu_type: str) -> Recipe:
    hardware = recipe.hardware.model_copy(update={"gpu_type": gpu_type})
    return recipe.model_copy(update={"hardware": hardware})


def _costs(fit: Fit) -> tuple[object, ...]:
    return fit.weights, fit.optimizer, fit.recompute, fit.offload


def _memory(part: str) -> int:
    found = find_hardware(part)
    assert found is not None
    return found.memory_bytes
