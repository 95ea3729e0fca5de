"""Which of a training's weights go to the gates if a suite chooses: scores of each, and the rule.

The best of several scores on the suite flatters the winner: it is used to choose, never to judge. Gates depend on other
items, which had no part in the choice.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, model_validator

from ft_assets.workers.training.kept_weights import Weights
from ft_resources.strict_model import StrictModel

# The input's name before the suite's key, and the samples of a choice.
VALIDATION_INPUT = "validation:"
SAMPLES = "choice"


class Weighed(StrictModel):
    """The weights after ``step``: their ``score`` on the suite, None if their results are not finite, and validation
    loss (nats per token), None if it was not measured."""

    step: Annotated[int, Field(ge=1)]
    score: Annotated[float, Field(ge=0.0, le=1.0)] | None
    validation_loss: float | None


class SuiteChoice(StrictModel):
    """The basis of a choice by the suite ``suite``: the mean of ``metric`` over ``n`` items, by weights."""

    suite: str
    metric: str
    n: Annotated[int, Field(ge=1)]
    weights: Annotated[tuple[Weighed, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _can_be_made(self) -> "SuiteChoice":
        steps = [weighed.step for weighed in self.weights]
        if len(set(steps)) != len(steps) or all(weighed.score is None for weighed in self.weights):
            raise ValueError("there are no weights to choose from, or the same weights occur twice")
        return self

    @property
    def best(self) -> Weighed:
        """The highest score; ties go to the lowest validation loss, then to the later step. Never weights without a
        score."""

        def rank(each: Weighed) -> tuple[float, float, int]:
            loss = math.inf if each.validation_loss is None else each.validation_loss
            return -(each.score or 0.0), loss, -each.step

        return min((each for each in self.weights if each.score is not None), key=rank)


def chosen_weights(stored: Sequence[Weights], choice: SuiteChoice | None) -> Weights:
    """The weights of a checkpoint that the scores of ``choice`` select. Raises ValueError if they cover other weights,
    or there are none."""
    if choice is None:
        raise ValueError("the report has no record of how the suite chose the weights")
    theirs = {weighed.step: weighed.validation_loss for weighed in choice.weights}
    if theirs != {weights.step: weights.loss for weights in stored}:
        raise ValueError("the recorded weights or validation losses differ from the checkpoint's")
    return next(weights for weights in stored if weights.step == choice.best.step)


def score_column(step: int) -> str:
    """The column of ``samples/choice.parquet`` with the scores of the weights after ``step``."""
    return f"score_{step}"


def require_scores(choice: SuiteChoice, columns: Mapping[str, Sequence[Any]]) -> None:
    """Raise ValueError if the samples of a choice give other scores than the choice states."""
    for weighed in choice.weights:
        scores = columns.get(score_column(weighed.step))
        if weighed.score is None and scores is None:
            continue
        shares = all(isinstance(score, int | float) and 0 <= score <= 1 for score in scores or ())
        if weighed.score is None or scores is None or len(scores) != choice.n or not shares:
            raise ValueError(f"the weights after step {weighed.step} do not have exactly one score per item")
        if math.fsum(scores) / len(scores) != weighed.score:
            raise ValueError(f"they give a different score for the weights after step {weighed.step}")
