"""Refuse updates that would ruin the weights: non-finite numbers, and an exploding loss.

A loss explodes if

* it is above twice the loss of a uniform guess, whose mean over tokens is ln(vocabulary) (``clueless_loss``); or
* ``STREAK`` steps in a row are *far above* the run's own median of the last ``REMEMBERED`` steps before them: above
  twice that median, and by two nats. A single bad batch of noisy data is neither. Losses that compare with a reference
  start at ln 2, so a few steps give a median; other losses fall so fast at first that 20 are needed.

The check runs before the optimizer step, so the weights are those of the step before.
"""

import math
import statistics
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.workers.packs.format import Pack
from ft_assets.workers.packs.sampler import Step
from ft_resources.errors import Diverged

STREAK, REMEMBERED = 8, 100
_NAMED = 20
_FEWEST = 20
"""Minimum number of steps for a meaningful median."""


class Explosion:
    """Distinguishes an exploding loss from a noisy one, from the losses of all steps in order."""

    def __init__(self, clueless: float | None) -> None:
        """``clueless`` is the loss of a uniform guess in nats; None for losses that compare with a reference."""
        self._ceiling, self._fewest = (math.inf, 1) if clueless is None else (2 * clueless, _FEWEST)
        self._calm: deque[float] = deque(maxlen=REMEMBERED)
        self._streak: list[float] = []

    @property
    def suspicious(self) -> bool:
        """Whether the last step was far above the run's median: not the time to replace good saves."""
        return bool(self._streak)

    def reason(self, loss: float) -> str | None:
        """What is wrong with the next step's loss, as a clause; None if nothing is."""
        if loss > self._ceiling:
            return f"the loss is {loss:.4g}, above twice the loss of a uniform guess"
        median = statistics.median(self._calm) if len(self._calm) >= self._fewest else math.inf
        if loss <= max(2 * median, median + 2):
            # A bad batch or two count as part of the run's noise.
            self._calm.extend([*self._streak, loss])
            self._streak = []
            return None
        self._streak.append(loss)
        if len(self._streak) < STREAK:
            return None
        return f"the loss is {loss:.4g} and was far above the run's median of {median:.4g} for {STREAK} steps in a row"


class Watch(Explosion):
    """Checks each step's loss and gradient before the optimizer uses them, continuing after the steps in ``rows``.

    Steps that fp16 loss scaling skipped have no gradient norm and do not count.
    """

    def __init__(self, pack: Pack, steps: int, clueless: float | None, rows: Iterable[Mapping[str, Any]]) -> None:
        super().__init__(clueless)
        self._pack, self._steps = pack, steps
        for row in rows:
            if "loss" in row and "grad_norm" in row:
                self.reason(row["loss"])

    def require_sound(self, step: Step, loss: float, grad_norm: float) -> None:
        """Raise Diverged, which is never retried automatically, naming the examples that the step read."""
        if not (math.isfinite(loss) and math.isfinite(grad_norm)):
            reason: str | None = f"the loss is {loss} and the gradient's norm {grad_norm}"
        else:
            reason = self.reason(loss)
        if reason is None:
            return
        examples = name_examples(self._pack, self._pack.examples_of(step.windows.tolist()))
        raise Diverged(
            f"{reason}, at step {step.number} of {self._steps}; the update was not made and the last good save is "
            f"kept; the step read {examples}",
            where=f"step {step.number}",
            remedy="Lower training.learning_rate (a tenth is a good try) or raise training.warmup_ratio in a new "
            "recipe version; if it fails at this step again, look at these examples.",
        )


def clueless_loss(params: Mapping[str, Any], vocabulary: int) -> float | None:
    """The loss of a uniform guess in nats; None if the loss compares with a reference.

    ``params`` are the training's settings. A uniform guess gives each token 1 / ``vocabulary``, and prefers no answer.
    """
    method = METHODS[params["method"]]
    if method.beyond_likelihood is None:
        return None
    return math.log(vocabulary) + method.beyond_likelihood(method.own_settings(params))


def name_examples(pack: Pack, indices: Iterable[int]) -> str:
    """``row 12 (3fa9…), row 7 (…) and 30 more``, from indices of examples; the id is the dataset's."""
    distinct = list(dict.fromkeys(int(index) for index in indices))
    named = ", ".join(f"row {pack.example_row(index)} ({pack.example_id(index)})" for index in distinct[:_NAMED])
    return named if len(distinct) <= _NAMED else f"{named} and {len(distinct) - _NAMED} more"
