"""The text of an answer, token by token, for as much work at its end as at its beginning."""

from collections.abc import Sequence
from typing import Any

_HALF = "\ufffd"
# A letter has four tokens at most, and some decoders say nothing of a row of letters before its last is whole. What is
# no text after so many tokens will never be.
_MOST_HELD = 64


class GrowingText:
    """Decodes each token beside those just before it, and not after the whole answer: a token's text depends on its
    neighbours, as the first of a text may lose its space, and letters have several."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        # Some tokens whose text was told, and then those whose text was not, or not all of it.
        self._before: list[int] = []
        self._held: list[int] = []
        self._told = 0

    def add(self, ids: Sequence[int], *, ends: bool) -> str:
        """The text that ``ids`` add. A letter that is not whole waits for its other tokens, unless the answer ends."""
        self._held += ids
        text = self._decoded([*self._before, *self._held])
        is_whole = ends or not text.endswith(_HALF) or len(self._held) >= _MOST_HELD
        told = text if is_whole else text.rstrip(_HALF)
        # Half a letter may turn the whole ones before it, which were told, into halves for a while.
        new, self._told = told[self._told :], max(self._told, len(told))
        if is_whole and new:
            self._before, self._held = self._held, []
            self._told = len(self._decoded(self._before))
        return new

    def _decoded(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True))
