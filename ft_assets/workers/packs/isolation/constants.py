"""Questions whose answer is the same for a whole process, such as which kernels are installed."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, Protocol, TypeVar

import torch

Answer = TypeVar("Answer")
Given = TypeVar("Given", covariant=True)


class AskedOnce(Protocol[Given]):
    """What ``asked_once`` makes of a question."""

    def __call__(self, *arguments: Any) -> Given: ...

    def cache_clear(self) -> None:
        """Ask again."""


def asked_once(question: Callable[..., Answer]) -> AskedOnce[Answer]:
    """``question``, asked once for each combination of arguments.

    ``torch.compile`` treats the answer as a constant. It would trace through a mere ``functools.cache``, and break its
    graph at what it does not understand there, such as an import that fails.
    """
    answers = cache(question)

    @wraps(question)
    def asked(*arguments: Any) -> Answer:
        return answers(*arguments)

    asked.cache_clear = answers.cache_clear  # type: ignore[attr-defined]
    constant: AskedOnce[Answer] = torch.compiler.assume_constant_result(asked)
    return constant
