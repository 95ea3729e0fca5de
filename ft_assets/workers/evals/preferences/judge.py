"""What local and remote judges have in common."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ft_resources.errors import StoreUnavailable

# Inputs of an evaluation that are local judges: "judge:0" and "judge:1", by their index in the recipe.
JUDGE_INPUT = "judge:"
# The only reasons for a missing verdict: they are counted, shown and compared.
TIMED_OUT = "timed out"
UNAVAILABLE = "not available"
DECLINED = "declined by the endpoint"
FORBIDDEN = "not permitted by the endpoint"
UNREADABLE = "unreadable answer"
CUT_SHORT = "cut short"
TOO_LONG = "too long for the judge"
PROSE = "no verdict in the text"


class JudgeUnavailable(StoreUnavailable):
    """The judge cannot be reached or answers with errors; a later try may succeed, and resumes from here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """A judge's reply to one message, or why there is none (one of the words above)."""

    text: str = ""
    problem: str = ""


Keep = Callable[[int, Judgement], None]


class Judge(Protocol):
    """A model that judges."""

    def ask(self, messages: Sequence[str], keep: Keep) -> None:
        """Ask all ``messages``; call ``keep`` with each one's index and judgement, in any order.

        Raises UserError if it cannot be asked with its settings, and JudgeUnavailable.
        """
        ...
