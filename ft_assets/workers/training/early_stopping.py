"""Early stopping: a run ends at a validation when the loss has not fallen for a while.

The decision depends on the rows of validations alone. So saves need nothing more, every rank decides alike, and a
resumed run stops where the uninterrupted run would.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ft_assets.settings.recipe.training import EarlyStoppingSettings
from ft_assets.workers.training.journal import NOT_FINITE

STOPPED_EARLY = "stopped_early"
"""The fact with the last step of a run that stopped early."""


def stopping_step(rows: Iterable[Mapping[str, Any]], settings: EarlyStoppingSettings | None, last: int) -> int | None:
    """The step before ``last`` after which a run with these rows stops; None if it continues.

    A loss that is not finite is no improvement.
    """
    if settings is None:
        return None
    best, waited = math.inf, 0
    for row in rows:
        if "validation_loss" not in row and NOT_FINITE not in row:
            continue
        loss = row.get("validation_loss", math.inf)
        best, waited = (loss, 0) if loss < best - settings.min_delta else (best, waited + 1)
        if waited == settings.patience:
            return int(row["step"]) if row["step"] < last else None
    return None
