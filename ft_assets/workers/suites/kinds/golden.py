"""Kind ``golden``: prompts that matter to the tenant, with expected answers or for side-by-side comparison.

An item with ``expected`` counts if the answer equals it (``exact``), contains it (``contains``) or matches it
(``regex``); several expected texts are alternatives. Items without it are answered by both models and shown on the
report page.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from pydantic import Field

from ft_assets.workers.suites.kinds.asking import Asking
from ft_assets.workers.suites.patterns import TimedPatterns, check_pattern
from ft_assets.workers.suites.score import Said, SuiteScore, suite_score
from ft_assets.workers.suites.suite_rows import item_rows, text_of
from ft_resources.errors import BadRecipe
from ft_resources.settings import Settings

Match = Literal["exact", "contains", "regex"]
METRIC = "golden"


class GoldenTask(Settings):
    """The task file, strictly validated."""

    kind: Literal["golden"] = Field(description="golden: answers that must be right, or are only shown.")
    file: str = Field(description="A file of items with prompt and, optionally, expected and match.")
    id: str | None = Field(None, min_length=1, description="Column of the item's id; null: its number.")
    match: Match = Field("exact", description="How an answer is compared if its item has no match.")
    ignore_case: bool = Field(False, description="Ignore upper and lower case.")
    max_new_tokens: int = Field(256, ge=1, le=4096, description="Longest answer in tokens.")
    system_prompt: str | None = Field(None, min_length=1, description="System message before each prompt; null: none.")
    metadata: dict[str, Any] = Field({}, description="Anything for humans.")


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenItem:
    """A prompt; ``expected`` is empty if there is no right answer."""

    id: str
    prompt: str
    expected: tuple[str, ...]
    match: Match
    ignore_case: bool

    @property
    def texts(self) -> tuple[str, ...]:
        """The prompt. The expected answer may be a single word, which training data may well contain."""
        return (self.prompt,)

    def is_met(self, answer: str) -> bool:
        """Whether the answer is one of the expected ones, ignoring white space around it."""
        return any(self._meets(answer.strip(), expected) for expected in self.expected)

    def _meets(self, answer: str, expected: str) -> bool:
        if self.match == "regex":
            flags = re.IGNORECASE if self.ignore_case else re.NOFLAG
            try:
                return TimedPatterns().compile(expected, flags).search(answer) is not None
            except TimeoutError as error:
                remedy = "Write a simpler pattern; one that begins with something fixed is quick."
                raise BadRecipe(
                    "the pattern takes too long on an answer", where=f"item {self.id}", remedy=remedy
                ) from error
        if self.ignore_case:
            answer, expected = answer.casefold(), expected.casefold()
        return answer == expected.strip() if self.match == "exact" else expected in answer


def read(task: GoldenTask, files: Mapping[str, Path], where: str) -> list[GoldenItem]:
    """The items. Raises BadRecipe, naming the line, for an expected value that is not a text, or an invalid pattern."""
    return [_item(task, name, place, row) for name, place, row in item_rows(task.file, files, where, task.id)]


def is_scored(items: Sequence[GoldenItem]) -> bool:
    """Whether any item has a right answer."""
    return any(item.expected for item in items)


def score(task: GoldenTask, items: Sequence[GoldenItem], asking: Asking) -> SuiteScore:
    """The share of answers as expected; the other answers are kept for the report page."""
    found = asking.answer_prompts(
        [item.prompt for item in items], system_prompt=task.system_prompt, max_new_tokens=task.max_new_tokens
    )
    asked = [(items[place], answer) for place, answer in sorted(found.items())]
    shown = {
        item.id: Said(question=item.prompt, target="", answer=answer) for item, answer in asked if not item.expected
    }
    scored = [(item, answer) for item, answer in asked if item.expected]
    also = {"too_long": float(len(items) - len(asked))}
    if not is_scored(items):
        return SuiteScore(metric=METRIC, value=0.0, n=0, correct=(), item_ids=(), also=also, shown=shown)
    return suite_score(
        METRIC,
        [item.id for item, _ in scored],
        [float(item.is_met(answer)) for item, answer in scored],
        [Said(question=item.prompt, target=" | ".join(item.expected), answer=answer) for item, answer in scored],
        where=asking.where,
        also=also,
        shown=shown,
    )


def _item(task: GoldenTask, name: str, place: str, row: Mapping[str, Any]) -> GoldenItem:
    given, match = row.get("expected"), row.get("match") or task.match
    if match not in get_args(Match):
        remedy = f"Write {', '.join(get_args(Match))}, or leave match out."
        raise BadRecipe(f"there is no match {match!r}", where=place, remedy=remedy)
    # CSV has no null: an empty field counts as missing.
    expected = () if given is None or given == "" else tuple(given) if isinstance(given, list) else (given,)
    if given == [] or not all(isinstance(each, str) and each.strip() for each in expected):
        remedy = "Write a text, a list of texts, or nothing if the answer is only shown."
        raise BadRecipe("expected is not a text", where=place, remedy=remedy)
    try:
        for each in expected if match == "regex" else ():
            check_pattern(each)
    except ValueError as error:
        raise BadRecipe(f"expected: {error}", where=place, remedy="Correct the pattern.") from error
    return GoldenItem(
        id=name,
        prompt=text_of(row, "prompt", place),
        expected=expected,
        match=cast(Match, match),
        ignore_case=task.ignore_case,
    )
