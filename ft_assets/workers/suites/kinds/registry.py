"""The kinds of suites besides lm-eval's tasks and safety: how each is read, and how a model is scored on it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ft_assets.workers.suites.kinds import code, golden, instructions
from ft_assets.workers.suites.kinds.asking import Asking
from ft_assets.workers.suites.kinds.code import CodeTask
from ft_assets.workers.suites.kinds.golden import GoldenTask
from ft_assets.workers.suites.kinds.instructions import InstructionsTask
from ft_assets.workers.suites.kinds.sandbox import require_sandbox
from ft_assets.workers.suites.score import SuiteScore
from ft_resources.settings import Settings


class Item(Protocol):
    """One scored or shown item."""

    @property
    def id(self) -> str:
        """Unique within the suite."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Texts that training data may not give away."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """One kind of suite.

    Args:
        read: the items of a task, given its file's folder as name to path; raises BadRecipe for an unusable item.
        score: the model's score on these items.
        chat: whether answers depend on the chat template.
        ready: raises UserError if something that scoring needs is missing.
        is_scored: whether any of the items has a right answer.
    """

    name: str
    task: type[Settings]
    read: Callable[[Any, Mapping[str, Path], str], Sequence[Item]]
    score: Callable[[Any, Sequence[Any], Asking], SuiteScore]
    chat: bool
    ready: Callable[[], None] = lambda: None
    is_scored: Callable[[Sequence[Any]], bool] = lambda items: True


_ALL = (
    Kind(name="instructions", task=InstructionsTask, read=instructions.read, score=instructions.score, chat=True),
    Kind(name="code", task=CodeTask, read=code.read, score=code.score, chat=False, ready=require_sandbox),
    Kind(name="golden", task=GoldenTask, read=golden.read, score=golden.score, chat=True, is_scored=golden.is_scored),
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}


def kind_of(task: Settings) -> Kind:
    """The kind of ``task``."""
    return next(kind for kind in KINDS.values() if isinstance(task, kind.task))


def uses_chat(kind: str) -> bool:
    """Whether answers to suites of this kind (as registered) depend on the chat template."""
    return kind in KINDS and KINDS[kind].chat


def require_ready(tasks: Iterable[Settings]) -> None:
    """Raise UserError if one of these suites cannot be scored here."""
    present = {type(task) for task in tasks}
    for kind in KINDS.values():
        if kind.task in present:
            kind.ready()
