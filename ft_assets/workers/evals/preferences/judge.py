"""What every judge does, wherever it is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ft_resources.errors import StoreUnavailable

# Inputs of an evaluation that are local judges: "judge:0" and "judge:1", by their place in the recipe.
JUDGE_INPUT = "judge:"
# The only words for why there is no verdict: they are counted, shown and compared.
TIMED_OUT = "timed out"
UNAVAILABLE = "not available"
DECLINED = "declined by the endpoint"
UNREADABLE = "unreadable answer"
CUT_SHORT = "cut short"
TOO_LONG = "too long for the judge"
PROSE = "no verdict in the text"


class JudgeUnavailable(StoreUnavailable):
    """The judge cannot be reached or answers with errors; trying later may help, and goes on where this ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """What a judge said to one message, or why it said nothing (one of the words above)."""

    text: str = ""
    problem: str = ""


Keep = Callable[[int, Judgement], None]


class Judge(Protocol):
    """A model that judges."""

    def ask(self, messages: Sequence[str], keep: Keep) -> None:
        """Ask all ``messages``; call ``keep`` with each one's place and judgement, in whatever order they come.

        Raises UserError where it cannot be asked as it is set up, and JudgeUnavailable.
        """
        ...
