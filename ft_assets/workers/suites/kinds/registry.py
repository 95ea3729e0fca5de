"""The kinds of suites beside lm-eval's tasks and safety: how each is read, and how a model is scored on it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ft_assets.evals.kinds import code, golden, instructions
from ft_assets.evals.kinds.asking import Asking
from ft_assets.evals.kinds.sandbox import require_sandbox
from ft_assets.evals.score import SuiteScore
from ft_assets.recipes.settings import Settings


class Item(Protocol):
    """One scored or shown item."""

    @property
    def id(self) -> str:
        """Differs within the suite."""

    @property
    def texts(self) -> tuple[str, ...]:
        """What training data may not give away."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """One kind of suite.

    Args:
        read: the items of a task, given its file's folder as name to path; raises BadRecipe for any that is unusable.
        score: the model's score on these items.
        chat: whether answers depend on the chat template.
        ready: raises UserError where what scoring needs is not there.
        is_scored: whether any of the items has a right answer.
    """

    name: str
    task: type[Settings]
    read: Callable[[Any, Mapping[str, Path], str], Sequence[Item]]
    score: Callable[[Any, Sequence[Any], Asking], SuiteScore]
    chat: bool
    ready: Callable[[], None] = lambda: None
    is_scored: Callable[[Sequence[Any]], bool] = lambda items: True


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name="instructions",
            task=instructions.InstructionsTask,
            read=instructions.read,
            score=instructions.score,
            chat=True,
        ),
        Kind(
            name="code",
            task=code.CodeTask,
            read=code.read,
            score=code.score,
            chat=False,
            ready=require_sandbox,
        ),
        Kind(
            name="golden",
            task=golden.GoldenTask,
            read=golden.read,
            score=golden.score,
            chat=True,
            is_scored=golden.is_scored,
        ),
    )
}


def kind_of(task: Settings) -> Kind:
    """The kind that ``task`` is of."""
    return next(kind for kind in KINDS.values() if isinstance(task, kind.task))


def uses_chat(kind: str) -> bool:
    """Whether answers to suites of this kind (as registered) depend on the chat template."""
    return kind in KINDS and KINDS[kind].chat


def require_ready(tasks: Iterable[Settings]) -> None:
    """Raise UserError where one of these suites could not be scored here."""
    present = {type(task) for task in tasks}
    for kind in KINDS.values():
        if kind.task in present:
            kind.ready()
