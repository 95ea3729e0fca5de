"""Which of a training's weights go to the gates where a suite chooses: scores of each, and the rule.

The score on the suite is the best of several, and so flatters whoever won: it chooses and judges nothing. Gates stand
on other items, which had no part in the choice.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ft_assets.checkpoints.kept import Weights

# The input's name before the suite's key, and the samples of a choice.
VALIDATION_INPUT = "validation:"
SAMPLES = "choice"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Weighed(_Record):
    """The weights after ``step``: their ``score`` on the suite, None where what they compute is no finite number, and
    validation loss (nats a token), None where it was not measured."""

    step: Annotated[int, Field(ge=1)]
    score: Annotated[float, Field(ge=0.0, le=1.0)] | None
    validation_loss: float | None


class SuiteChoice(_Record):
    """What a choice by the suite ``suite`` was made of: the mean of ``metric`` over ``n`` items, by weights."""

    suite: str
    metric: str
    n: Annotated[int, Field(ge=1)]
    weights: Annotated[tuple[Weighed, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _can_be_made(self) -> "SuiteChoice":
        steps = [weighed.step for weighed in self.weights]
        if len(set(steps)) != len(steps) or all(weighed.score is None for weighed in self.weights):
            raise ValueError("the choice has nothing to choose from, or weights that are there twice")
        return self

    @property
    def best(self) -> Weighed:
        """The highest score; of equals the lowest validation loss, and of these the later step. Never weights that have
        no score."""
        scored = [(-each.score, _loss(each), -each.step, each) for each in self.weights if each.score is not None]
        return min(scored, key=lambda each: each[:3])[3]


def chosen_weights(stored: Sequence[Weights], choice: SuiteChoice | None) -> Weights:
    """Those of a checkpoint's weights that the scores of ``choice`` choose. Raises ValueError where it is about others,
    or there is none."""
    if choice is None:
        raise ValueError("the report does not say how a suite chose among the weights")
    theirs = {weighed.step: weighed.validation_loss for weighed in choice.weights}
    if theirs != {weights.step: weights.loss for weights in stored}:
        raise ValueError("the choice is about other weights, or other validation losses, than the checkpoint's")
    return next(weights for weights in stored if weights.step == choice.best.step)


def score_column(step: int) -> str:
    """The column of ``samples/choice.parquet`` with the scores of the weights after ``step``."""
    return f"score_{step}"


def require_scores(choice: SuiteChoice, columns: Mapping[str, Sequence[Any]]) -> None:
    """Raise ValueError where the samples of a choice give other scores than it says."""
    for weighed in choice.weights:
        scores = columns.get(score_column(weighed.step))
        if weighed.score is None and scores is None:
            continue
        if weighed.score is None or scores is None or len(scores) != choice.n or not all(map(_is_share, scores)):
            raise ValueError(f"there is not one score an item of the weights after step {weighed.step}")
        if math.fsum(scores) / len(scores) != weighed.score:
            raise ValueError(f"they give another score of the weights after step {weighed.step}")


def _is_share(score: Any) -> bool:
    return isinstance(score, int | float) and 0 <= score <= 1


def _loss(weighed: Weighed) -> float:
    return math.inf if weighed.validation_loss is None else weighed.validation_loss
