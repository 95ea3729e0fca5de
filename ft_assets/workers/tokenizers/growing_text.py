"""The text of an answer, token by token, at a constant cost per token."""

from collections.abc import Sequence
from typing import Any

_HALF = "\ufffd"
# A character has four tokens at most, and some decoders return nothing for a run of characters before its last one is
# complete. Tokens that are not text after this many never will be.
_MOST_HELD = 64


class GrowingText:
    """Decodes each token together with those just before it, instead of the whole answer each time. A token's text
    depends on its neighbours: the first of a text may lose its space, and a character may have several tokens.

    Args:
        controls: whether control tokens are shown.
    """

    def __init__(self, tokenizer: Any, *, controls: bool = False) -> None:
        self._tokenizer, self._controls = tokenizer, controls
        # Tokens whose text was returned last, then those whose text is still held back, or a part of it.
        self._before: list[int] = []
        self._held: list[int] = []
        self._told = 0

    def add(self, ids: Sequence[int], *, ends: bool) -> str:
        """The text that ``ids`` add. An incomplete character waits for its other tokens, unless the answer ends."""
        self._held += ids
        text = self._decoded([*self._before, *self._held])
        is_whole = ends or not text.endswith(_HALF) or len(self._held) >= _MOST_HELD
        told = text if is_whole else text.rstrip(_HALF)
        # An incomplete character may temporarily make complete ones before it, already returned, undecodable.
        new, self._told = told[self._told :], max(self._told, len(told))
        if is_whole and new:
            self._before, self._held = self._held, []
            self._told = len(self._decoded(self._before))
        return new

    def without_controls(self) -> "GrowingText":
        """The rest of this text, in which control tokens are no longer shown."""
        rest = GrowingText(self._tokenizer)
        rest._before, rest._held = list(self._before), list(self._held)
        rest._told = self._told - len(self._decoded(self._before)) + len(rest._decoded(rest._before))
        return rest

    def _decoded(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=not self._controls))
