"""The objectives of training: one file per method; ``settings.catalogue.methods`` lists them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ft_assets.settings.catalogue.methods import METHODS
from ft_resources.lazy import load

if TYPE_CHECKING:
    from ft_assets.workers.training.methods.objective import Objective


def make_objective(params: Mapping[str, Any]) -> "Objective":
    """The objective of the training with these settings (``Recipe.training_settings``)."""
    objective: Objective = load(METHODS[params["method"]].objective)(params)
    return objective
