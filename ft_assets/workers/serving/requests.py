"""A request to the engine, and the events that answer it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ft_resources.serving.server import Reason, Sampling, Token


@dataclass(frozen=True, slots=True)
class Read:
    """The prompt was read. ``scores`` are its tokens with log-probabilities (none for the first); empty unless asked
    for."""

    scores: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """A token was generated; ``reason`` says why it is the last one, None if it is not."""

    token: Token
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Failed:
    """The request ended without an answer."""

    error: Exception


Event = Read | Written | Failed


def ends(event: Event) -> bool:
    """Whether no other event of its request follows."""
    return isinstance(event, Failed) or (isinstance(event, Written) and event.reason is not None)


@dataclass(eq=False, slots=True)
class Request:
    """A request; ``tell`` gets its events on the engine's thread and must not block.

    Args:
        model: the name of the base or of an adapter.
        prompt: token ids.
        prompt_logprobs: report log-probabilities of the prompt's tokens and of this many likeliest ones; None: do not.
    """

    model: str
    prompt: list[int]
    sampling: Sampling
    tell: Callable[[Event], None]
    prompt_logprobs: int | None = None
    cancelled: bool = field(default=False, init=False)
    """Set from any thread: nobody waits for the answer any more."""
