"""What a training minimises: one small file a method, and a line in ``METHODS``.

Without torch and numpy, as whoever asks which data a method learns from needs neither.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ft_assets.checkpoints.methods.objective import Objective
    from ft_assets.packs.format.layout import Form


@dataclass(frozen=True, kw_only=True, slots=True)
class Method:
    """A training method.

    Args:
        form: of the data that it learns from.
        module: the file beside this one whose ``objective(params)`` makes its Objective.
        compares: whether it needs a reference's log-probabilities (``reference_logps``).
    """

    form: "Form"
    module: str
    compares: bool = False


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "sft": Method(form="chat", module="sft"),
        "cpt": Method(form="text", module="sft"),
        "dpo": Method(form="preference", module="dpo", compares=True),
        "orpo": Method(form="preference", module="orpo"),
    }
)


def make_objective(params: Mapping[str, Any]) -> "Objective":
    """What the training with these settings (``Recipe.training_settings``) minimises."""
    module = import_module(f"{__name__}.{METHODS[params['method']].module}")
    objective: Objective = module.objective(params)
    return objective
