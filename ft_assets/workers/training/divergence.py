"""Refusing updates that would spoil the weights: numbers that are none, and a loss that explodes.

A loss explodes where

* it is above twice that of a model that knows nothing, whose mean over tokens is ln(vocabulary) (``clueless_loss``); or
* ``STREAK`` steps in a row are *far above* the run's own median of the last ``REMEMBERED`` steps before them: above
  twice that median, and by two nats. A single bad batch, as noisy data has them, is neither. Of a comparison with a
  reference, which begins at ln 2, the first steps tell; other losses fall so much at first that only 20 do.

Looked at before the optimizer steps, so the weights are those of the step before.
"""

import math
import statistics
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from ft_assets.checkpoints.methods import METHODS
from ft_assets.checkpoints.naming import name_examples
from ft_assets.checkpoints.sampler import Step
from ft_assets.packs.format import Pack
from ft_assets.worker import Diverged

STREAK, REMEMBERED = 8, 100
_FEWEST = 20
"""Steps behind a median that means something."""


class Explosion:
    """Tells an exploding loss from a noisy one, given the losses of all steps in their order."""

    def __init__(self, clueless: float | None) -> None:
        """``clueless`` is the loss of a model that knows nothing, in nats; None for comparisons with a reference."""
        self._ceiling, self._fewest = (math.inf, 1) if clueless is None else (2 * clueless, _FEWEST)
        self._calm: deque[float] = deque(maxlen=REMEMBERED)
        self._streak: list[float] = []

    @property
    def suspicious(self) -> bool:
        """Whether the last step was far above the run's median, so that the weights may be spoilt already."""
        return bool(self._streak)

    def reason(self, loss: float) -> str | None:
        """What is wrong with the next step's loss, as a clause; None where nothing is."""
        if loss > self._ceiling:
            return f"the loss is {loss:.4g}, above twice what a model that knows nothing has"
        median = statistics.median(self._calm) if len(self._calm) >= self._fewest else math.inf
        if loss <= max(2 * median, median + 2):
            # What turned out to be a bad batch or two is part of the run's noise.
            self._calm.extend([*self._streak, loss])
            self._streak = []
            return None
        self._streak.append(loss)
        if len(self._streak) < STREAK:
            return None
        return f"the loss is {loss:.4g} and was far above the run's median of {median:.4g} for {STREAK} steps in a row"


class Watch:
    """Looks at each step's loss and gradient before the optimizer uses them."""

    def __init__(self, pack: Pack, steps: int) -> None:
        self._pack, self._steps = pack, steps
        self._explosion = Explosion(None)

    def begin(self, clueless: float | None, rows: Iterable[Mapping[str, Any]]) -> None:
        """Go on behind the steps booked in ``rows``; ``clueless`` as in ``Explosion``.

        A step that fp16's loss scaling left out was not looked at, and has no gradient norm: it does not count here.
        """
        self._explosion = Explosion(clueless)
        for row in rows:
            if "loss" in row and "grad_norm" in row:
                self._explosion.reason(row["loss"])

    @property
    def suspicious(self) -> bool:
        """Whether the loss has been far too high of late: no time to replace good saves."""
        return self._explosion.suspicious

    def require_sound(self, step: Step, loss: float, grad_norm: float) -> None:
        """Raises Diverged, which is never retried by itself, and names what the step has read."""
        if not (finite(loss) and finite(grad_norm)):
            reason: str | None = f"the loss is {loss} and the gradient's norm {grad_norm}"
        else:
            reason = self._explosion.reason(loss)
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
    """The loss of a model that knows nothing, in nats; None where the loss compares with a reference.

    ``params`` are the training's settings. Such a model gives each token 1 / ``vocabulary``, and prefers no answer.
    """
    method = METHODS[params["method"]]
    if method.compares:
        return None
    odds = params["preference"]["beta"] * math.log(2) if method.form == "preference" else 0.0
    return math.log(vocabulary) + float(odds)


def finite(value: float) -> bool:
    return abs(value) < float("inf")
