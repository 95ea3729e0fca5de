"""Stop strings: an answer ends before the first of them, wherever the pieces of its text end."""

from collections.abc import Sequence
from dataclasses import dataclass

from ft_resources.serving.server import Piece, Reason, Token


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """The part of an answer to send: text, thoughts before it, and the tokens of the text that begin in what was sent,
    each once."""

    text: str
    thoughts: str = ""
    tokens: tuple[Token, ...] = ()
    finish_reason: Reason | None = None


class Cutter:
    """Cuts one answer at the first of ``stops`` to be complete; of several that are then, at the longest.

    Text that may be the beginning of one is held back. The token that ended the answer is no part of its text, and is
    left out.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self._told = self._seen = self._led = 0
        self._waiting: list[tuple[int, Token]] = []

    def take(self, piece: Piece) -> Part:
        """What may be told after ``piece``; with a reason, the answer has ended and nothing may follow."""
        tokens = piece.tokens[:-1] if piece.finish_reason == "stop" else piece.tokens
        self._waiting += [(self._seen, token) for token in tokens]
        # Thoughts and marks are no tokens of the text.
        del self._waiting[: piece.lead - self._led]
        self._led = piece.lead
        self._seen += len(piece.text)
        text = self._held + piece.text
        if (start := self._stopped_at(text)) is not None:
            return self._tell(text[:start], piece.thoughts, "stop", self._told + start)
        if piece.finish_reason is not None:
            return self._tell(text, piece.thoughts, piece.finish_reason, self._seen + 1)
        held = self._beginning_at_end(text)
        self._held = text[len(text) - held :]
        shown = text[: len(text) - held]
        return self._tell(shown, piece.thoughts, None, self._told + len(shown))

    def _tell(self, text: str, thoughts: str, reason: Reason | None, end: int) -> Part:
        """A part, with the waiting tokens that begin before ``end``."""
        tokens = tuple(token for start, token in self._waiting if start < end)
        self._waiting = [(start, token) for start, token in self._waiting if start >= end]
        self._told += len(text)
        return Part(text=text, thoughts=thoughts, tokens=tokens, finish_reason=reason)

    def _stopped_at(self, text: str) -> int | None:
        """Where the stop string begins at which ``text`` is cut."""
        found = [(place + len(stop), place) for stop in self._stops if (place := text.find(stop)) >= 0]
        return min(found)[1] if found else None

    def _beginning_at_end(self, text: str) -> int:
        """Length of the longest beginning of a stop string that ``text`` ends with."""
        longest = max(map(len, self._stops), default=1) - 1
        return next(
            (
                length
                for length in range(min(longest, len(text)), 0, -1)
                if any(len(stop) > length and stop.startswith(text[-length:]) for stop in self._stops)
            ),
            0,
        )
