"""Which settings a sweep may try."""

from collections.abc import Iterable

from ft_assets.settings.catalogue.methods import SECTIONS
from ft_assets.settings.recipe.training import WITHOUT_EFFECT, LoraSettings, TrainingSettings
from ft_resources.settings import Settings
from ft_resources.strict import nearest

_SECTIONS: dict[str, type[Settings]] = {"training": TrainingSettings, "lora": LoraSettings}
_OF_A_LOSS = "it is part of the loss, and losses of different kinds cannot be compared"
# Why some settings of the training cannot be swept.
NOT_SWEPT = {
    **{f"training.{name}": "it does not change what is learned" for name in (*WITHOUT_EFFECT, "validate_every_steps")},
    "training.early_stopping": "all trials stop by the same rule",
    "training.warm_start": "it is locked when a recipe is registered; write one recipe for each adapter",
    "training.seed": "it also packs the tokens, and all trials of a sweep learn from one pack",
    **{f"{section}.{name}": _OF_A_LOSS for section, model in SECTIONS.items() for name in model.model_fields},
}
_FREE = sorted({f"{s}.{name}" for s, model in _SECTIONS.items() for name in model.model_fields} - NOT_SWEPT.keys())


def path_problems(paths: Iterable[str]) -> list[str]:
    """A sentence for each of ``paths`` that cannot be swept."""
    problems = []
    for path in paths:
        if path in NOT_SWEPT:
            problems.append(f"sweep.parameters: {path} cannot be swept: {NOT_SWEPT[path]}")
        elif path not in _FREE:
            section, _, name = path.partition(".")
            # The section's name is in all its paths, so it does not help to find the intended one.
            names = [each.removeprefix(f"{section}.") for each in _FREE if each.startswith(f"{section}.")]
            hint = nearest(name, names) if names else nearest(path, _FREE)
            problems.append(f"sweep.parameters: {path!r} cannot be swept; {hint}")
    return problems
