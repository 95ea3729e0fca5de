"""Convert plain text to documents in which everything is learned."""

from collections.abc import Callable, Sequence

import numpy as np

from ft_assets.workers.packs.documents.assembly import Assembly, Pieces
from ft_assets.workers.tokenizers.encoder import Encoder
from ft_assets.workers.tokenizers.segments import Documents, Tokens
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadBase, BadData


class TextLabeller:
    """Converts texts to labelled tokens: beginning-of-text if the tokenizer adds one, the text, end-of-text.

    Raises BadBase for a tokenizer without an end-of-text token.
    """

    def __init__(self, tokenizer: ChatTokenizer, encoder: Encoder) -> None:
        self._encoder = encoder
        end = tokenizer.token_id("eos_token")
        if end is None:
            raise BadBase(
                "the tokenizer names no end-of-text token, so a model would not learn where a text ends",
                where="tokenizer_config.json",
                remedy="Take a base whose tokenizer_config.json has an eos_token.",
            )
        beginning = tokenizer.token_id("bos_token")
        added = tokenizer.tokenizer.encode("a", add_special_tokens=True).ids[:1]
        self._before = _control([beginning] if beginning is not None and added == [beginning] else [])
        self._after = _control([end])

    @property
    def controls(self) -> int:
        """Control tokens of a text."""
        return len(self._before.ids) + len(self._after.ids)

    def label(self, texts: Sequence[str], where: Callable[[int], str]) -> Documents:
        """The texts' documents; ``where(number)`` names one. Raises BadData for an empty text."""
        empty = next((number for number, text in enumerate(texts) if not text), None)
        if empty is not None:
            raise BadData("there is no text in this row", where=where(empty), remedy="Remove the row.")
        assembly = Assembly(len(texts))
        # A text begins its document, as if the tokenizer encoded it alone.
        encoded = self._encoder.encode(texts, [[(0, len(text))] for text in texts], range(len(texts)))
        pieces = assembly.encoded(encoded)
        edges = [(assembly.constant(each), len(each.ids)) for each in (self._before, self._after)]
        starts = np.stack([np.full(len(texts), edges[0][0]), pieces.starts, np.full(len(texts), edges[1][0])], axis=1)
        lengths = np.stack([np.full(len(texts), edges[0][1]), pieces.lengths, np.full(len(texts), edges[1][1])], axis=1)
        assembly.place(range(len(texts)), Pieces(starts=starts, lengths=lengths))
        documents = assembly.documents()
        documents.learned[documents.offsets[:-1]] = False
        return documents


def _control(ids: list[int]) -> Tokens:
    flags = np.ones(len(ids), np.bool_)
    return Tokens(ids=np.array(ids, np.int32), learned=flags, control=flags)
