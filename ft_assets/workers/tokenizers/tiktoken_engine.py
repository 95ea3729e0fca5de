"""Byte-level BPE by tiktoken, for regular expressions that our own compiled code does not know."""

import re
import unicodedata
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.tokenizers.batching import BatchEncoder
from ft_assets.workers.tokenizers.byte_level import ByteLevel, NotByteLevel
from ft_assets.workers.tokenizers.encoder import Encoder

# Its regular expressions overflow the stack on about 100,000 characters of white space.
_LONG = 20_000
_WIDE = re.compile(rf"\s{{{_LONG}}}")


class TiktokenEncoder(BatchEncoder):
    """``Encoder`` by tiktoken.

    Args:
        tables: the tokenizer's.
        other: creates the engine for segments that NFC would change, or that are not safe with this one.

    Raises NotByteLevel if the tokenizer's merges or added tokens violate tiktoken's assumptions, and ValueError for an
    expression that it cannot parse.
    """

    def __init__(self, tables: ByteLevel, other: Callable[[], Encoder]) -> None:
        import tiktoken

        super().__init__(other)
        if tables.words:
            raise NotByteLevel("it looks pieces up before it merges")
        if any(_overlap(one, another) for one in tables.added for another in tables.added):
            raise NotByteLevel("its added tokens overlap")
        names = tables.names()
        ranks = {name: rank for rank, name in enumerate(names.values())}
        if len(tables.merges) + 256 != len(ranks):
            raise NotByteLevel("several of its merges make one token, or some cannot happen")
        added = {text: len(ranks) + place for place, text in enumerate(tables.added)}
        self._engine = tiktoken.Encoding(
            "segments", pat_str=tables.pattern, mergeable_ranks=ranks, special_tokens=added
        )
        self._allowed, self._composed = frozenset(added), tables.composed
        self._ids = np.array([*names, *tables.added.values()], np.int32)
        self._lengths = np.array([*map(len, ranks), *(len(text.encode()) for text in added)], np.int64)

    def _run(
        self, text: str, data: bytes, starts: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        counts = np.empty(len(starts), np.int64)
        found, ends = [], []
        for number, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
            segment = data[start:stop].decode()
            counts[number] = -1
            tokens = self._tokens(segment) if self._is_safe(segment) else None
            if tokens is not None:
                places = start + np.cumsum(self._lengths[tokens])
                # An expression may skip text, which Hugging Face keeps.
                if not len(places) or places[-1] == stop:
                    counts[number] = len(tokens)
                    found.append(tokens)
                    ends.append(places)
        ids = self._ids[np.concatenate([np.empty(0, np.uint32), *found])]
        return ids, np.concatenate([np.empty(0, np.int64), *ends]), counts

    def _tokens(self, text: str) -> NDArray[np.uint32] | None:
        try:
            return self._engine.encode_to_numpy(text, allowed_special=self._allowed, disallowed_special=())
        except BaseException as panic:
            # A failure in its Rust code (an expression that matches nothing at all) is not an Exception.
            if type(panic).__name__ != "PanicException":
                raise
            return None

    def _is_safe(self, text: str) -> bool:
        if self._composed and not unicodedata.is_normalized("NFC", text):
            return False
        return len(text) < _LONG or _WIDE.search(text) is None


def _overlap(one: str, other: str) -> bool:
    """Whether two different texts, or a text and itself, can overlap fully or in part."""
    if one != other and one in other:
        return True
    return any(one[-size:] == other[:size] for size in range(1, min(len(one), len(other))))
