"""What a model reached on one suite, item by item."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ft_resources.errors import BadRecipe


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """An item's texts for the report page: what was asked, what is right, what the model said."""

    question: str
    target: str
    answer: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SuiteScore:
    """A model's score on one suite: ``value`` is the mean of ``correct``, one number for each of ``item_ids``.

    Args:
        said: the texts of each item, in the order of ``item_ids``.
        also: further figures by name, which no gate looks at.
        shown: answers to prompts that have no right answer, by the prompt's id.
    """

    metric: str
    value: float
    n: int
    correct: tuple[float, ...]
    item_ids: tuple[str, ...]
    said: tuple[Said, ...] = ()
    also: dict[str, float] = field(default_factory=dict)
    shown: dict[str, Said] = field(default_factory=dict)


def suite_score(
    metric: str,
    item_ids: Sequence[str],
    correct: Sequence[float],
    said: Sequence[Said],
    *,
    where: str,
    also: dict[str, float] | None = None,
    shown: dict[str, Said] | None = None,
) -> SuiteScore:
    """The score that these items make. Raises BadRecipe where there are none, or one is no number in [0, 1]."""
    if not correct or not all(math.isfinite(score) and 0 <= score <= 1 for score in correct):
        raise BadRecipe(
            f"{metric} is not a share on every item",
            where=where,
            remedy="Look at the suite's items: each needs a question and a right answer, choices where some are given.",
        )
    if len(set(item_ids)) != len(item_ids):
        raise BadRecipe("two items have one id", where=where, remedy="Give each item an id of its own, or none an id.")
    return SuiteScore(
        metric=metric,
        value=math.fsum(correct) / len(correct),
        n=len(correct),
        correct=tuple(correct),
        item_ids=tuple(item_ids),
        said=tuple(said),
        also=also or {},
        shown=shown or {},
    )
