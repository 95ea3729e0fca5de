"""A model's results on one suite, item by item."""

import math
from collections.abc import Sequence
from typing import Self

from pydantic import Field, model_validator

from ft_resources.errors import BadRecipe
from ft_resources.records import Record
from ft_resources.strict_model import StrictModel


class Said(StrictModel):
    """An item's texts for the report page: the question, the right answer, the model's answer."""

    question: str
    target: str
    answer: str


class SuiteScore(Record):
    """A model's score on one suite: ``value`` is the mean of ``correct``, one number for each of ``item_ids``.

    Args:
        said: the texts of each item, in the order of ``item_ids``.
        also: further figures by name, which no gate uses.
        shown: answers to prompts that have no right answer, by the prompt's id.
        through_template: whether a task of lm-eval was asked through the chat template.
    """

    metric: str
    value: float
    n: int
    correct: tuple[float, ...]
    item_ids: tuple[str, ...]
    said: tuple[Said, ...] = ()
    also: dict[str, float] = Field(default={})
    shown: dict[str, Said] = Field(default={})
    through_template: bool = Field(default=False)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        counts = {len(self.correct), len(self.item_ids), len(self.said) or self.n}
        # Prompts without right answers are only shown.
        if counts != {self.n} or not (self.n or self.shown):
            raise ValueError("items are missing")
        return self


def suite_score(
    metric: str,
    item_ids: Sequence[str],
    correct: Sequence[float],
    said: Sequence[Said],
    *,
    where: str,
    also: dict[str, float] | None = None,
    shown: dict[str, Said] | None = None,
    through_template: bool = False,
) -> SuiteScore:
    """The score of these items. Raises BadRecipe if there are none, or if one is not a number in [0, 1]."""
    if not correct or not all(math.isfinite(score) and 0 <= score <= 1 for score in correct):
        raise BadRecipe(
            f"{metric} is not a share on every item",
            where=where,
            remedy="Look at the suite's items: each needs a question and a right answer, choices where some are given.",
        )
    if len(set(item_ids)) != len(item_ids):
        raise BadRecipe("two items have the same id", where=where, remedy="Give every item a unique id, or none an id.")
    return SuiteScore(
        metric=metric,
        value=math.fsum(correct) / len(correct),
        n=len(correct),
        correct=tuple(correct),
        item_ids=tuple(item_ids),
        said=tuple(said),
        also=also or {},
        shown=shown or {},
        through_template=through_template,
    )
