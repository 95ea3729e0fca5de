"""The items of a suite: is there a question, something to choose from, and a right choice?

lm-eval counts an item whose answer is -1, out of range or a text that is no choice as wrong, for every model. A suite
without usable answers would show 0 % for base and candidate alike, and so pass every limit on getting worse.
"""

import ast
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ft_assets.evals.patterns import replace
from ft_assets.evals.suite_task import SuiteTask
from ft_assets.evals.templates import check_template
from ft_assets.recipes.strict import nearest
from ft_resources.errors import BadRecipe

Row = dict[str, Any]
# What reading an item can raise: Jinja's errors, and what lm-eval's own evaluation of its text raises.
_UNREADABLE = (
    *(LookupError, TypeError, ValueError, SyntaxError, ArithmeticError, RecursionError, MemoryError),
    # A pattern of the task's own Jinja text.
    TimeoutError,
)


def check_items(task: SuiteTask, rows: Sequence[tuple[str, Row]]) -> None:
    """Read every item of the scored split as lm-eval will. ``rows``: where each stands, and its columns.

    Raises BadRecipe that names the first item which cannot be scored.
    """
    from jinja2 import TemplateError

    columns = {name for _, row in rows for name in row}
    if task.doc_to_text not in columns and re.fullmatch(r"\w+", task.doc_to_text):
        # lm-eval would ask this one word every time.
        raise BadRecipe(
            f"doc_to_text: there is no column {task.doc_to_text!r}; {nearest(task.doc_to_text, sorted(columns))}",
            where=rows[0][0],
            remedy="Name a column of the items, or write Jinja text.",
        )
    try:
        reader = _Reader(task, columns)
    except (TemplateError, ValueError) as error:
        raise unreadable(error, rows[0][0]) from error
    if task.output_type == "generate_until":
        for where, row in rows:
            try:
                require_text(task, reader.question(row), reader.target(row), where)
            except (TemplateError, *_UNREADABLE) as error:
                raise unreadable(error, where) from error
        return
    asks_for_the_question = several = False
    for number, (where, row) in enumerate(rows):
        try:
            if number == 0:
                # The first item decides for lm-eval whether questions are chosen and not answers (as in Winogrande).
                asks_for_the_question = isinstance(reader.question(row), int)
            choices = reader.choices(row)
            answer = reader.question(row) if asks_for_the_question else reader.target(row)
        except (TemplateError, *_UNREADABLE) as error:
            raise unreadable(error, where) from error
        require_answer(choices, answer, where)
        lists = isinstance(answer, list | tuple)
        several = lists if number == 0 else several
        if lists != several or (task.metric_list[0].metric == "mc2" and not lists):
            # lm-eval takes the first item for all; a list would then equal no choice.
            raise BadRecipe(
                "some items have a list of right answers and others one",
                where=where,
                remedy="Let doc_to_target give a list for every item, as mc2 needs it, or for none.",
            )


def check_task_items(settings: SuiteTask, task: Any, documents: Iterator[Mapping[str, Any]], suite: str) -> None:
    """The same with an lm-eval task's own eyes, before a model is scored on ``documents``."""
    from jinja2 import TemplateError

    for number, document in enumerate(documents, start=1):
        where = f"suite {suite}, item {number}"
        try:
            question = task.doc_to_text(document)
            if settings.output_type == "generate_until":
                require_text(settings, question, task.doc_to_target(document), where)
                continue
            choices = task.doc_to_choice(document)
            answer = question if task.multiple_input else task.doc_to_target(document)
        except (TemplateError, *_UNREADABLE) as error:
            raise unreadable(error, where) from error
        require_answer(choices, answer, where)


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


def require_text(task: SuiteTask, question: Any, answer: Any, where: str) -> None:
    """Raise BadRecipe unless there is a question and a right answer, of which the metric's settings leave something."""
    answers = answer if isinstance(answer, list | tuple) and answer else [answer]
    kept = [_compared(task, str(each)) for each in answers if isinstance(each, str | int | float) and str(each).strip()]
    if not isinstance(question, str) or not question.strip() or len(kept) < len(answers) or not all(kept):
        raise BadRecipe(
            "this item has no question or no right answer, or what is ignored leaves nothing of it",
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
    """How lm-eval reads an item (``ConfigurableTask``: ``doc_to_text``, ``_choice`` and ``_target``), without it."""

    def __init__(self, task: SuiteTask, columns: set[str]) -> None:
        from jinja2 import StrictUndefined
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
        environment.filters["regex_replace"] = replace
        self._task, self._columns = task, columns
        for text in (task.doc_to_text, task.doc_to_choice, task.doc_to_target, task.description):
            if isinstance(text, str):
                check_template(environment, text)
        self._templates = {
            text: environment.from_string(text)
            for text in (task.doc_to_text, task.doc_to_choice, task.doc_to_target)
            if isinstance(text, str) and text not in columns
        }

    def question(self, row: Row) -> Any:
        """The question, or the index of the right one among the choices."""
        rendered = self._task.doc_to_text in self._templates and self._task.doc_to_choice is not None
        return _as_index(self._field(self._task.doc_to_text, row), rendered)

    def choices(self, row: Row) -> Any:
        """What there is to choose from."""
        found = self._field(self._task.doc_to_choice, row)
        return ast.literal_eval(found) if self._task.doc_to_choice in self._templates else found

    def target(self, row: Row) -> Any:
        """The right choice's index or text, or several indices."""
        rendered = self._task.doc_to_target in self._templates
        found = self._field(self._task.doc_to_target, row)
        several = rendered and isinstance(found, str) and found.startswith("[") and found.endswith("]")
        if self._task.output_type == "generate_until":
            try:
                return ast.literal_eval(found) if several else found
            except (SyntaxError, ValueError):
                return found
        found = _as_index(found, rendered)
        return ast.literal_eval(found) if several else found

    def _field(self, setting: Any, row: Row) -> Any:
        if not isinstance(setting, str):
            return setting
        # A column that a row leaves out is null in it once the whole file is a table.
        whole = dict.fromkeys(self._columns) | row
        return whole[setting] if setting in self._columns else self._templates[setting].render(whole)


def _as_index(value: Any, rendered: bool) -> Any:
    """Jinja gives texts; one of digits alone means a number to lm-eval."""
    return int(value) if rendered and isinstance(value, str) and value.isdigit() else value
