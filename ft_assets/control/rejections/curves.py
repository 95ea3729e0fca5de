"""Diagnose training curves: overfitting, unfinished training, loss spikes. Pure functions of ``steps.jsonl`` rows."""

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Point = tuple[int, float]
"""Optimizer step, from 1, and a number."""

# The validation split is fixed, so its loss has little noise: a rise of this many nats, or of this share, counts.
_RISE, _RISE_SHARE = 0.02, 0.02
# Training loss is still falling if the run's last tenth is lower than the tenth before by this share.
_FALL_SHARE = 0.02
_FEWEST = 10
"""Shorter training curves are not judged."""
FEW_STEPS = 50
"""A training of fewer steps has hardly begun, unless its loss rises."""
# A spike exceeds the median of the preceding steps by this factor and by this many nats.
_SPIKE_TIMES, _SPIKE_NATS, _SPIKE_BEHIND = 1.5, 0.5, 20


@dataclass(frozen=True, kw_only=True)
class Overfit:
    """Validation loss was lowest, ``best`` nats, after ``step`` of ``steps``, and ended at ``last``."""

    step: int
    steps: int
    best: float
    last: float


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Curves of one training, each in the order of its steps; losses in nats, gradient norms before clipping."""

    training: tuple[Point, ...] = ()
    validation: tuple[Point, ...] = ()
    gradients: tuple[Point, ...] = ()

    @property
    def steps(self) -> int:
        """The last optimizer step; 0 without any rows."""
        return self.training[-1][0] if self.training else 0

    def overfit(self) -> Overfit | None:
        """The point after which validation loss rose for good while training loss kept falling, or None.

        At least two validations are needed. If training loss rose too, it is not overfitting.
        """
        if len(self.validation) < 2:
            return None
        step, best = min(self.validation, key=lambda point: (point[1], point[0]))
        last = self.validation[-1][1]
        if last - best < max(_RISE, _RISE_SHARE * abs(best)) or self._mean_until(step) <= self._mean_until(self.steps):
            return None
        return Overfit(step=step, steps=self.steps, best=best, last=last)

    def memorised(self) -> tuple[float, float] | None:
        """Final training and validation loss, if the first is less than half of the second: a sign of overfitting in a
        run with too few validations to see the turn."""
        if not self.validation or len(self.training) < _FEWEST:
            return None
        trained, validated = self._mean_until(self.steps), self.validation[-1][1]
        return (trained, validated) if trained < validated / 2 and validated - trained > 10 * _RISE else None

    def still_falling(self) -> float | None:
        """The share by which the loss of the last tenth of the steps is below the tenth before, if that justifies more
        training and validation loss (if any) is still at its lowest."""
        if len(self.training) < _FEWEST or self.overfit() or self.memorised():
            return None
        tenth = max(_FEWEST // 2, len(self.training) // 10)
        losses = [loss for _, loss in self.training]
        before, last = statistics.fmean(losses[-2 * tenth : -tenth]), statistics.fmean(losses[-tenth:])
        share = (before - last) / before if before > 0 else 0.0
        return share if share >= _FALL_SHARE and self._validates_at_its_lowest() else None

    def too_short(self) -> float | None:
        """The share by which the loss of the later half of a training of fewer than ``FEW_STEPS`` steps is below the
        earlier half, if it did not rise and validation loss (if any) did not either."""
        losses = [loss for _, loss in self.training]
        half = len(losses) // 2
        if not half or self.steps >= FEW_STEPS or self.overfit() or self.memorised():
            return None
        before, last = statistics.fmean(losses[:half]), statistics.fmean(losses[-half:])
        share = (before - last) / before if before > 0 else 0.0
        return share if share > -_FALL_SHARE and self._validates_at_its_lowest() else None

    def _validates_at_its_lowest(self) -> bool:
        return not self.validation or self.validation[-1][1] <= min(loss for _, loss in self.validation)

    def spikes(self) -> tuple[int, ...]:
        """Steps whose loss jumped far above the median of the twenty before."""
        losses = [loss for _, loss in self.training]
        found = []
        for place in range(_SPIKE_BEHIND, len(losses)):
            median = statistics.median(losses[place - _SPIKE_BEHIND : place])
            if losses[place] > max(_SPIKE_TIMES * median, median + _SPIKE_NATS):
                found.append(self.training[place][0])
        return tuple(found)

    def clipped(self, limit: float, *, after: int) -> float:
        """The share of steps beyond ``after`` whose gradient norm exceeded ``limit``; 0 without any rows."""
        norms = [norm for step, norm in self.gradients if step > after]
        return sum(norm > limit for norm in norms) / len(norms) if norms else 0.0

    def _mean_until(self, step: int) -> float:
        """Mean training loss over the tenth of the run that ends with ``step``; one step is mostly noise."""
        width = max(1, self.steps // 10)
        near = [loss for place, loss in self.training if step - width < place <= step]
        return statistics.fmean(near) if near else math.nan


def read_curves(lines: Iterable[str]) -> Curves:
    """The curves in ``report/steps.jsonl``. Malformed rows and non-finite numbers are skipped."""
    training: list[Point] = []
    validation: list[Point] = []
    gradients: list[Point] = []
    for line in lines:
        try:
            row = json.loads(line)
            step = int(row["step"])
        except (ValueError, KeyError, TypeError):
            continue
        for name, points in (("loss", training), ("validation_loss", validation), ("grad_norm", gradients)):
            value = row.get(name)
            if isinstance(value, int | float) and math.isfinite(value):
                points.append((step, float(value)))
    return Curves(training=_once(training), validation=_once(validation), gradients=_once(gradients))


def _once(points: Sequence[Point]) -> tuple[Point, ...]:
    """Rows in order of steps. If a resume repeated a step, the later row counts."""
    return tuple(sorted(dict(points).items()))
