"""The questions of a suite's items, apart from their choices, as people copy them."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from ft_assets.workers.suites.overlap import all_texts
from ft_assets.workers.suites.suite_task import SuiteTask

_NAMES = re.compile(r"\{[{%](.*?)[%}]\}", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]\w*")
# "B. {{sol2}}" is a choice, whatever its column is called.
_LETTERED = re.compile(r"(?:^|[\s(\[])(?:[A-Ja-j]|[1-9])\s*[.):\]]\s*\{\{-?\s*([A-Za-z_]\w*)")
_LABEL_BEFORE = re.compile(r"^\s*([A-Za-z]\w*)\s*:\s+")
_LABEL_AFTER = re.compile(r"\s+([A-Za-z]\w*)\s*:\s*$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One item.

    Args:
        questions: the forms in which it may be copied: the whole question, and the question without its passage.
        choices: the texts to choose from, or the answer.
        texts: all its texts.
    """

    questions: tuple[str, ...]
    choices: tuple[str, ...]
    texts: tuple[str, ...]

    @classmethod
    def of(cls, question: str, choices: Sequence[str]) -> Self:
        """An item without other texts."""
        return cls(questions=(question,), choices=tuple(choices), texts=(question, *choices))

    @property
    def shown(self) -> str:
        """For people."""
        return "\n".join([self.questions[0] if self.questions else "", *self.choices]).strip()


def asked_by_task(task: SuiteTask, rows: Sequence[Mapping[str, Any]]) -> list[Asked]:
    """The items in ``rows`` of an lm-eval task; the question consists of the columns in ``doc_to_text``, in order."""
    known = {name for row in rows for name in row}
    lettered = set(_LETTERED.findall(task.doc_to_text))
    offered = {*_columns(str(task.doc_to_choice or ""), known), *lettered}
    asking = [name for name in _columns(task.doc_to_text, known) if name not in offered]
    found = []
    for row in rows:
        parts = [row[name] for name in asking if isinstance(row[name], str) and row[name].strip()]
        texts = [(name, list(all_texts(value))) for name, value in row.items() if name != "id"]
        others = [text for name, each in texts for text in each if name not in asking or row[name] not in parts]
        found.append(_asked(parts, others, [text for _, each in texts for text in each]))
    return _unlabelled(found)


def asked_by_texts(items: Sequence[Sequence[str]]) -> list[Asked]:
    """Items of a kind that names no choices: the first text is the question."""
    return _unlabelled([_asked(list(texts[:1]), list(texts[1:]), list(texts)) for texts in items])


def _asked(parts: list[str], others: list[str], texts: list[str]) -> Asked:
    if not parts:
        parts = [max(texts, key=len)] if texts else []
    questions = ["\n".join(parts), *parts[-1:]] if len(parts) > 1 else parts
    return Asked(questions=tuple(questions), choices=tuple(each for each in others if each), texts=tuple(texts))


def _columns(template: str, known: set[str]) -> dict[str, None]:
    """The columns that a setting of the task names, in order: a single column, or those in a Jinja text."""
    if template in known:
        return {template: None}
    names = (name for code in _NAMES.findall(template) for name in _WORD.findall(code))
    return dict.fromkeys(name for name in names if name in known)


def _unlabelled(items: list[Asked]) -> list[Asked]:
    """``items`` without the labels that most of them have: "Question: …", "… Answer:"."""
    for pattern in (_LABEL_BEFORE, _LABEL_AFTER):
        labels = Counter(label for item in items for label in _labels(pattern, item))
        common = {label for label, count in labels.items() if 2 * count > len(items) > 1}
        items = [
            replace(
                item,
                questions=tuple(
                    pattern.sub("", each) if common.intersection(pattern.findall(each)) else each
                    for each in item.questions
                ),
            )
            for item in items
        ]
    return items


def _labels(pattern: re.Pattern[str], item: Asked) -> Iterator[str]:
    yield from {label for question in item.questions for label in pattern.findall(question)}
