"""The items of a suite: is there a question, are there choices, and is one of them right?

lm-eval counts an item whose answer is -1, out of range or a text that is not a choice as wrong, for every model. A
suite without usable answers would show 0 % for base and candidate alike, and so pass every regression limit.
"""

import ast
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ft_assets.workers.suites.patterns import replace
from ft_assets.workers.suites.suite_task import SuiteTask
from ft_assets.workers.suites.suite_templates import SuiteEnvironment
from ft_assets.workers.templates.limits import WithoutEnd
from ft_resources.errors import BadRecipe
from ft_resources.strict import nearest

Row = dict[str, Any]
Read = Callable[[Any], Any]
# Columns for ``bias``.
SIDES = ("sided", "biased")
# Of ``reported_by``.
MAX_VALUES = 100
# Errors from reading an item: Jinja's, and those from lm-eval's evaluation of the text.
_UNREADABLE = (
    *(LookupError, TypeError, ValueError, SyntaxError, ArithmeticError, RecursionError, MemoryError),
    # The task's own Jinja text, and a pattern in it.
    *(WithoutEnd, TimeoutError),
)


def check_items(task: SuiteTask, rows: Sequence[tuple[str, Row]]) -> None:
    """Read every item of the scored split as lm-eval will. ``rows``: each row's place, and its columns.

    Raises BadRecipe that names the first item that cannot be scored.
    """
    from jinja2 import TemplateError

    columns = {name for _, row in rows for name in row}
    if task.doc_to_text not in columns and re.fullmatch(r"\w+", task.doc_to_text):
        # lm-eval would ask this single word every time.
        raise BadRecipe(
            f"doc_to_text: there is no column {task.doc_to_text!r}; {nearest(task.doc_to_text, sorted(columns))}",
            where=rows[0][0],
            remedy="Name a column of the items, or write Jinja text.",
        )
    try:
        reader = _Reader(task, columns)
    except (TemplateError, ValueError) as error:
        raise unreadable(error, rows[0][0]) from error
    if task.counted is not None and (missing := [where for where, row in rows if not _counted(task.counted, row)]):
        raise BadRecipe(
            f"counted: this item has no text in column {task.counted!r}",
            where=missing[0],
            remedy="Name a column that has a text in each item.",
        )
    if task.reported_by is not None:
        values = [row.get(task.reported_by) for _, row in rows]
        if None in values or len(set(map(str, values))) > MAX_VALUES:
            raise BadRecipe(
                f"reported_by: {task.reported_by!r} is missing from an item, or has more than {MAX_VALUES} values",
                where=rows[0][0],
                remedy="Name a column that says of what kind an item is.",
            )
    if task.bias and (
        bare := [where for where, row in rows if not all(isinstance(row.get(each), list) for each in SIDES)]
    ):
        remedy = "Give each item both, as lists of its choices."
        raise BadRecipe("bias: this item has no lists sided and biased", where=bare[0], remedy=remedy)
    _check(task, rows, reader.question, reader.choices, reader.target)


def check_task_items(settings: SuiteTask, task: Any, documents: Iterator[Mapping[str, Any]], suite: str) -> None:
    """The same check through an lm-eval task, before a model is scored on ``documents``."""
    rows = ((f"suite {suite}, item {number}", document) for number, document in enumerate(documents, start=1))
    _check(settings, rows, task.doc_to_text, task.doc_to_choice, task.doc_to_target)


def _check(task: SuiteTask, rows: Iterable[tuple[str, Any]], question: Read, choices: Read, target: Read) -> None:
    from jinja2 import TemplateError

    asks_for_the_question = several = False
    for number, (where, row) in enumerate(rows):
        try:
            asked = question(row)
            if task.output_type != "multiple_choice":
                _require_texts(task, asked, target(row), where)
                continue
            if number == 0:
                # In lm-eval the first item decides whether questions instead of answers are chosen (as in Winogrande).
                asks_for_the_question = isinstance(asked, int)
            found, answer = choices(row), asked if asks_for_the_question else target(row)
        except (TemplateError, *_UNREADABLE) as error:
            raise unreadable(error, where) from error
        require_answer(found, answer, where)
        lists = isinstance(answer, list | tuple)
        several = lists if number == 0 else several
        if lists != several or (task.scored_metric == "mc2" and not lists):
            # lm-eval assumes that all items are like the first; a list would then equal no choice.
            raise BadRecipe(
                "some items have a list of right answers and others one",
                where=where,
                remedy="Let doc_to_target give a list for every item, as mc2 needs it, or for none.",
            )


def require_answer(choices: Any, answer: Any, where: str) -> None:
    """Raise BadRecipe unless ``answer`` is one or more of at least two ``choices``, by index or by text."""
    texts = isinstance(choices, list | tuple) and all(isinstance(choice, str) and choice for choice in choices)
    if not texts or len(choices) < 2:
        raise BadRecipe(
            "this item has no list of at least two choices, each a text",
            where=where,
            remedy="Correct the item, or the task's doc_to_choice.",
        )
    answers = answer if isinstance(answer, list | tuple) and answer else [answer]
    if not all(_is_choice(choices, each, several=answers is answer) for each in answers):
        raise BadRecipe(
            f"the right answer is none of this item's {len(choices)} choices",
            where=where,
            remedy="Give its index (from 0) or its text in doc_to_target; an unlabelled split cannot be scored.",
        )


def _counted(column: str, row: Row) -> bool:
    text = row.get(column)
    return isinstance(text, str) and bool(text.strip())


def _require_texts(task: SuiteTask, question: Any, answer: Any, where: str) -> None:
    """Raise BadRecipe unless lm-eval can score this item of a task without choices."""
    if task.output_type == "generate_until":
        require_text(task, question, answer, where)
    elif not isinstance(answer, str) or not answer.strip():
        raise BadRecipe(
            "the text whose likelihood counts is empty or not a text",
            where=where,
            remedy="Correct the item, or let doc_to_target give one text for every item.",
        )
    elif task.output_type == "loglikelihood":
        require_text(task, question, answer, where)


def require_text(task: SuiteTask, question: Any, answer: Any, where: str) -> None:
    """Raise BadRecipe unless there is a question and a right answer that the metric's settings do not empty."""
    answers = answer if isinstance(answer, list | tuple) and answer else [answer]
    kept = [_compared(task, str(each)) for each in answers if isinstance(each, str | int | float) and str(each).strip()]
    if not isinstance(question, str) or not question.strip() or len(kept) < len(answers) or not all(kept):
        raise BadRecipe(
            "this item has no question or no correct answer, or is empty after the ignored parts are removed",
            where=where,
            remedy="Correct the item, or doc_to_text, doc_to_target and regexes_to_ignore.",
        )


def _compared(task: SuiteTask, text: str) -> str:
    metric = task.metric_list[0]
    for pattern in metric.regexes_to_ignore or ():
        text = replace(text, pattern, "")
    ignored = (string.punctuation if metric.ignore_punctuation else "") + (
        string.digits if metric.ignore_numbers else ""
    )
    return text.translate(str.maketrans("", "", ignored)).strip()


def unreadable(error: Exception, where: str) -> BadRecipe:
    """The error for an item that the task's settings do not fit."""
    if isinstance(error, WithoutEnd):
        return BadRecipe(
            f"a Jinja text of the task makes {error} of this item",
            where=where,
            remedy="Prepare a column in place of what the text computes.",
        )
    return BadRecipe(
        f"the task's settings do not fit this item ({type(error).__name__}: {str(error)[:200]})",
        where=where,
        remedy="Check doc_to_text, doc_to_choice and doc_to_target against the item's columns.",
    )


def _is_choice(choices: Sequence[str], answer: Any, *, several: bool) -> bool:
    if isinstance(answer, str):
        return answer in choices and not several
    return isinstance(answer, int) and 0 <= answer < len(choices)


class _Reader:
    """Reads items as lm-eval does (``ConfigurableTask``: ``doc_to_text``, ``_choice``, ``_target``), without it."""

    def __init__(self, task: SuiteTask, columns: set[str]) -> None:
        environment = SuiteEnvironment()
        self._task, self._columns = task, columns
        self._templates = {
            text: environment.from_string(text)
            for text in (task.doc_to_text, task.doc_to_choice, task.doc_to_target, task.description)
            if isinstance(text, str) and text not in columns
        }

    def question(self, row: Row) -> Any:
        """The question, or the index of the right question among the choices."""
        self._field(self._task.description, row)  # Stands before it.
        rendered = self._task.doc_to_text in self._templates and self._task.doc_to_choice is not None
        return _as_index(self._field(self._task.doc_to_text, row), rendered)

    def choices(self, row: Row) -> Any:
        """The choices."""
        found = self._field(self._task.doc_to_choice, row)
        return ast.literal_eval(found) if self._task.doc_to_choice in self._templates else found

    def target(self, row: Row) -> Any:
        """The right choice's index or text, or several indices."""
        rendered = self._task.doc_to_target in self._templates
        found = self._field(self._task.doc_to_target, row)
        several = rendered and isinstance(found, str) and found.startswith("[") and found.endswith("]")
        if self._task.output_type != "multiple_choice":
            try:
                return ast.literal_eval(found) if several else found
            except (SyntaxError, ValueError):
                return found
        found = _as_index(found, rendered)
        return ast.literal_eval(found) if several else found

    def _field(self, setting: Any, row: Row) -> Any:
        if not isinstance(setting, str):
            return setting
        # A column that a row leaves out becomes null in it once the whole file is a table.
        whole = dict.fromkeys(self._columns) | row
        return whole[setting] if setting in self._columns else self._templates[setting].render(whole)


def _as_index(value: Any, rendered: bool) -> Any:
    """Jinja returns texts; lm-eval reads a text of only digits as a number."""
    return int(value) if rendered and isinstance(value, str) and value.isdigit() else value
