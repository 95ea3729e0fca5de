"""Kind ``code``: functions that the model completes, as in HumanEval, or writes, as in MBPP, and that tests run.

Chen et al. 2021, "Evaluating Large Language Models Trained on Code" (https://arxiv.org/abs/2107.03374): an item counts
if its program (prompt and completion) and then its tests run to their end; with one greedy completion this is pass@1
(section 2.1). The tests have what the program's functions return, and nothing else of it.
In MBPP (Austin et al. 2021, https://arxiv.org/abs/2108.07732) the prompt is text, and not part of the program.
Programs run only in ``sandbox.py``'s sandbox, and only if the platform allows it.
"""

import ast
import builtins
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, Strict

from ft_assets.workers.suites.kinds.asking import Asking
from ft_assets.workers.suites.kinds.sandbox import Limits, run_program
from ft_assets.workers.suites.score import Said, SuiteScore, suite_score
from ft_assets.workers.suites.suite_rows import item_rows, text_of
from ft_resources.errors import BadRecipe
from ft_resources.settings import Settings

METRIC = "pass@1"
# Where HumanEval's authors end a completion (section 3.1): what follows no longer belongs to the function.
UNTIL = ("\nclass ", "\ndef ", "\n#", "\nif ", "\nprint(")
# Of the tests of an item: HumanEval+ has many inputs, some of them long.
_MOST_TEST = 16 << 20
_SHOWN = 65_536
_ALIASES = {"np": "numpy as np", "numpy": "numpy"}


class CodeTask(Settings):
    """The task file, strictly validated."""

    kind: Literal["code"] = Field(description="code: the model's program is run against tests.")
    file: str = Field(description="A file of items with prompt, test and entry_point, as HumanEval's.")
    answer: Literal["completion", "program"] = Field(
        "completion",
        description="completion: the answer continues the prompt, and test defines check(candidate); program: the "
        "answer is the whole program, test has statements that run after it, and there is no entry_point.",
    )
    before: str | None = Field(
        None, description="A .txt file: text before each prompt, such as examples. It is not part of the question."
    )
    id: str | None = Field("task_id", min_length=1, description="Column of the item's id; null: its number.")
    max_new_tokens: int = Field(512, ge=8, le=4096, description="Longest completion in tokens.")
    until: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Strict(False), Field(max_length=20)] = Field(
        UNTIL, description="Texts that end a completion and are not part of it."
    )
    limits: Limits = Field(Limits(), description="What a program may use.")
    metadata: dict[str, Any] = Field({}, description="Anything for humans, such as source and licence.")


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeItem:
    """A function to write, and its tests.

    Args:
        before: text before the prompt.
        question: the column ``question`` if there is one: the question without the prompt's fixed wording.
        test: defines ``check(candidate)`` if there is an ``entry_point``, the function's name; else statements.
    """

    id: str
    before: str
    prompt: str
    question: str
    test: str
    entry_point: str | None

    @property
    def texts(self) -> tuple[str, ...]:
        """What is asked, and the tests."""
        return (self.question, self.test)

    @property
    def names(self) -> list[str]:
        """Names that its tests use from the program."""
        if self.entry_point is None:
            return _free_names(self.test)
        return [self.entry_point, *_before_entry(self.prompt, self.entry_point)[1]]

    @property
    def tests(self) -> str:
        """The statements that are run as tests, with what the prompt defines before the function, as HumanEval's 32."""
        if self.entry_point is None:
            return "".join(f"import {_ALIASES.get(name, name)}\n" for name in _modules(self.test)) + self.test
        return f"{_before_entry(self.prompt, self.entry_point)[0]}\n\n{self.test}\n\ncheck({self.entry_point})\n"

    def program(self, answer: str) -> str:
        """The program that is run."""
        return answer if self.entry_point is None else self.prompt + answer


def _before_entry(prompt: str, entry_point: str) -> tuple[str, list[str]]:
    """The part of the prompt before the definition that the model completes; nothing, where it is not Python.

    And its classes, which are not in that part: tests hand the program objects of its own.
    """
    starts = list(re.finditer(rf"^(?:@.*\n)*(?:async +def|def|class) +{entry_point}\b", prompt, re.MULTILINE))
    before = prompt[: starts[-1].start()] if starts else prompt
    try:
        tree = ast.parse(before)
    except (SyntaxError, ValueError):
        return "", []
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    if not classes:
        return before, []
    tree.body = [node for node in tree.body if not isinstance(node, ast.ClassDef)]
    return ast.unparse(tree), classes


def _free_names(tests: str) -> list[str]:
    """Names that tests take from the program: what they use and do not define, which is no builtin.

    Where there is none, and they call one builtin only, the program has its own by that name (MBPP's 126: ``sum``).
    """
    nodes = list(ast.walk(ast.parse(tests)))
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    own = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    own |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    own |= {(node.asname or node.name).partition(".")[0] for node in nodes if isinstance(node, ast.alias)}
    free = {name for name in used - own if not hasattr(builtins, name)} - {*_modules(tests)}
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)} - own
    return sorted(free or (called if len(called) == 1 else ()))


def _modules(tests: str) -> list[str]:
    """Modules of which tests use members without an import: a program may call its own the same."""
    nodes = list(ast.walk(ast.parse(tests)))
    names = [node.id for node in nodes if isinstance(node, ast.Name)]
    members = [node.value.id for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    known = {*members} & {*sys.stdlib_module_names, *_ALIASES}
    return sorted(name for name in known if names.count(name) == members.count(name))


def read(task: CodeTask, files: Mapping[str, Path], where: str) -> list[CodeItem]:
    """The items; nothing is run. Raises BadRecipe, naming the line, for tests that are not valid Python."""
    before, items = _text_before(task, files, where), []
    for name, place, row in item_rows(task.file, files, where, task.id):
        prompt = text_of(row, "prompt", place)
        item = CodeItem(
            id=name,
            before=before,
            prompt=prompt,
            question=text_of(row, "question", place) if row.get("question") else prompt,
            test=text_of(row, "test", place, most=_MOST_TEST),
            entry_point=text_of(row, "entry_point", place) if task.answer == "completion" else None,
        )
        try:
            tree = ast.parse(item.test)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            remedy = "Correct the item's test."
            raise BadRecipe(f"test is not Python ({type(error).__name__})", where=place, remedy=remedy) from error
        checks = any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tree.body)
        if item.entry_point is not None and not (checks and item.entry_point.isidentifier()):
            raise BadRecipe(
                "test defines no function check, or entry_point is not a name",
                where=place,
                remedy="Give tests as HumanEval does: def check(candidate): assert …",
            )
        items.append(item)
    return items


def _text_before(task: CodeTask, files: Mapping[str, Path], where: str) -> str:
    if task.before is None:
        return ""
    if task.before not in files or not task.before.endswith(".txt"):
        remedy = "Name a .txt file in the task file's folder."
        raise BadRecipe(f"before: {task.before!r} is not a text file of this folder", where=where, remedy=remedy)
    try:
        return files[task.before].read_bytes().decode()
    except UnicodeDecodeError as error:
        raise BadRecipe("this is not UTF-8", where=f"{where}, {task.before}", remedy="Save it as UTF-8.") from error


def score(task: CodeTask, items: Sequence[CodeItem], asking: Asking) -> SuiteScore:
    """pass@1 of greedy completions, and the share of programs that timed out.

    Raises SandboxUnavailable if programs cannot be contained.
    """
    completions = asking.continue_texts(
        [item.before + item.prompt for item in items],
        until=task.until,
        max_new_tokens=task.max_new_tokens,
        report=lambda done, total: asking.report(done, 2 * total),
    )
    states = []
    # One at a time: next to others a program could time out by chance.
    for number, (item, completion) in enumerate(zip(items, completions, strict=True), start=1):
        program = item.program(completion)
        states.append(run_program(program, task.limits, tests=item.tests, names=item.names))
        asking.report(len(items) + number, 2 * len(items))
    return suite_score(
        METRIC,
        [item.id for item in items],
        [float(state == "passed") for state in states],
        [
            Said(question=item.prompt, target=item.test[:_SHOWN], answer=completion)
            for item, completion in zip(items, completions, strict=True)
        ],
        where=asking.where,
        also={"timeouts": states.count("timeout") / len(states)},
    )
