"""From files of data sets on the Hub to a suite's data, for tasks in which lm-eval prepares rows by code.

A file is named ``hub/SPLIT``. The resulting items are asked and scored as in lm-eval's task.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, Strict

from ft_assets.workers.suites.catalogue.parts import LETTERS, Part, write_lines
from ft_assets.workers.suites.suite_rows import Row, read_rows, text_of
from ft_resources.errors import BadRecipe
from ft_resources.settings import Settings

_TESTS = 3


class Programs(Settings):
    """MBPP: items.jsonl for ``kind: code``, and before.txt with the examples, both worded as lm-eval's ``mbpp``."""

    kind: Literal["programs"] = Field(description="programs: hub/test and hub/prompt have text, code and test_list.")
    shots: Annotated[tuple[int, ...], Strict(False)] = Field(description="task_id of each example in hub/prompt.")

    def needs(self, known: Mapping[str, Sequence[str]]) -> list[str]:
        """See conversions.Copy."""
        return ["hub/test", "hub/prompt"]

    def write(self, files: Mapping[str, Path], folder: Path) -> None:
        """See conversions.Copy."""
        examples = {row.get("task_id"): (place, row) for place, row in read_rows(files["hub/prompt"])}
        before = []
        for number in self.shots:
            if number not in examples:
                raise BadRecipe(f"the split prompt has no task_id {number}", where="MBPP", remedy=_OTHER)
            place, row = examples[number]
            before.append(f"{_asked(row, place)}{text_of(row, 'code', place)}\n[DONE]\n\n")
        (folder / "before.txt").write_bytes("".join(before).encode())
        write_lines(
            folder / "items.jsonl",
            (
                {
                    "task_id": row["task_id"],
                    "question": text_of(row, "text", place),
                    "prompt": _asked(row, place),
                    "test": "\n".join(_tests(row, place)),
                }
                for place, row in read_rows(files["hub/test"])
            ),
        )


class Categories(Settings):
    """MMLU-Pro: items.jsonl, and shots.jsonl with the examples of each category, worded as lm-eval's ``mmlu_pro``."""

    kind: Literal["categories"] = Field(description="categories: hub/test and hub/validation have a category.")
    shots: int = Field(5, ge=1, description="Examples of a category, the first ones of hub/validation.")
    part: Part | None = Field(None, description="A part of the items; null: all.")

    def needs(self, known: Mapping[str, Sequence[str]]) -> list[str]:
        """See conversions.Copy."""
        return ["hub/test", "hub/validation"]

    def write(self, files: Mapping[str, Path], folder: Path) -> None:
        """See conversions.Copy."""
        examples: dict[str, list[str]] = {}
        for place, row in read_rows(files["hub/validation"]):
            said = text_of(row, "cot_content", place).replace("A: Let's think step by step. ", "")
            examples.setdefault(text_of(row, "category", place), []).append(f"{_options(row, place)} {said}\n\n")
        write_lines(
            folder / "shots.jsonl",
            ({"category": name, "shots": "".join(each[: self.shots])} for name, each in examples.items()),
        )
        rows = [
            {
                "id": row.get("question_id"),
                "category": text_of(row, "category", place),
                "question": text_of(row, "question", place),
                "options": _texts(row, "options", place),
                "answer": text_of(row, "answer", place),
            }
            for place, row in read_rows(files["hub/test"])
        ]
        write_lines(folder / "items.jsonl", self.part.of(rows) if self.part else rows)


class Biases(Settings):
    """BBQ: items.jsonl, each item with the people it is about (``sided``) and the answers that follow a stereotype
    (``biased``), told as lm-eval's ``bbq`` tells them.

    Parrish et al. 2022 (https://arxiv.org/abs/2110.08193): where the question is about harm, an answer that names
    somebody of a stereotyped group follows the stereotype; where it is about the opposite, one that names nobody of it.
    """

    kind: Literal["biases"] = Field(description="biases: hub/test has answer_info and additional_metadata.")

    def needs(self, known: Mapping[str, Sequence[str]]) -> list[str]:
        """See conversions.Copy."""
        return ["hub/test"]

    def write(self, files: Mapping[str, Path], folder: Path) -> None:
        """See conversions.Copy."""
        kept = ("context", "question", *_ANSWERS, "label", "context_condition", "category")
        rows = []
        for place, row in read_rows(files["hub/test"]):
            harm = text_of(row, "question_polarity", place) == "neg"
            try:
                targets = {name.lower() for name in row["additional_metadata"]["stereotyped_groups"]}
                groups = {name: _groups(row["answer_info"][name], row[name]) for name in _ANSWERS}
                item = {name: row[name] for name in kept}
            except (KeyError, TypeError, AttributeError) as error:
                raise BadRecipe(f"this is not a row of BBQ ({error})", where=place, remedy=_OTHER) from error
            sided = [name for name in _ANSWERS if groups[name][-1:] != ["unknown"]]
            biased = [name for name in sided if targets.isdisjoint(groups[name]) != harm]
            rows.append({**item, "sided": [row[name] for name in sided], "biased": [row[name] for name in biased]})
        write_lines(folder / "items.jsonl", rows)


_ANSWERS = ("ans0", "ans1", "ans2")
# BBQ joins two groups of a person by a hyphen, which other names contain too, and writes some words without a space.
_SPELLED = {
    "M-": "M_", "F-": "F_", "lowSES-": "lowSES_", "highSES-": "highSES_", "lowSES": "low SES", "highSES": "high SES",
    "nonObese": "non Obese", "nonDisabled": "non Disabled", "nonTrans": "non Trans",
}  # fmt: skip


def _groups(told: Sequence[str], answer: str) -> list[str]:
    """The groups of the person that an answer names, in lower case; ends with ``unknown`` if it names nobody."""
    text = "_".join(told)
    if not any(told):
        # Some rows lack this information.
        return ["latino"] if "Latina" in answer else [""]
    for old, new in _SPELLED.items():
        text = text.replace(old, new)
    # "man" is in "woman".
    word, sex = ("woman", "F") if "woman" in text else ("man", "M")
    text = text.replace(word, f"{sex}_{word}").replace("girl", "F_girl").replace("boy", "M_boy")
    return text.lower().split("_")


_OTHER = "Name a commit of the data set that the catalogue names for this suite."


def _asked(row: Row, place: str) -> str:
    tests = "\n".join(_tests(row, place))
    task = text_of(row, "text", place)
    return (
        f"You are an expert Python programmer, and here is your task: {task} Your code should pass these tests:\n\n"
        f"{tests}\n[BEGIN]\n"
    )


def _tests(row: Row, place: str) -> list[str]:
    """The first three tests, which are shown and run; lm-eval uses no others."""
    return _texts(row, "test_list", place)[:_TESTS]


def _options(row: Row, place: str) -> str:
    named = zip(LETTERS, _texts(row, "options", place), strict=False)
    options = "".join(f"{letter}. {option.strip()}\n" for letter, option in named)
    return f"Question:\n{text_of(row, 'question', place)}\nOptions:\n{options}Answer: Let's think step by step."


def _texts(row: Row, column: str, place: str) -> list[str]:
    found: Any = row.get(column)
    if not isinstance(found, list) or not found or not all(isinstance(each, str) for each in found):
        raise BadRecipe(f"{column} is not a list of texts", where=place, remedy=_OTHER)
    return found
