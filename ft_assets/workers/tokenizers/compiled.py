"""Byte-level BPE in compiled code, for known regular expressions."""

import unicodedata
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.offsets import offsets_of
from ft_assets.workers.tokenizers.batching import BatchEncoder
from ft_assets.workers.tokenizers.byte_level import GPT2, ByteLevel
from ft_assets.workers.tokenizers.encoder import Encoder

_CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PATTERNS = {
    GPT2: (0, 0),
    # As in ByteLevel's own documentation.
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": (0, 0),
    _CL100K.replace("DIGITS", r"\p{N}"): (1, 1),
    _CL100K.replace("DIGITS", r"\p{N}{1,3}"): (1, 3),
}
"""Piece style and digits per piece, by expression: GPT-2's, Qwen's (2 to 3) and Llama 3's."""

_PIECES = 1 << 17
"""Maximum of cached pieces, with their space for text and tokens."""


class CompiledEncoder(BatchEncoder):
    """``Encoder`` by the kernel: every piece of text is merged once, then looked up.

    Args:
        tables: a tokenizer's, with a pattern of ``PATTERNS``.
        other: creates the engine for segments with characters whose class differs between Unicode versions, with pieces
            too long for quadratic merging, or that NFC would change.
    """

    def __init__(self, tables: ByteLevel, other: Callable[[], Encoder]) -> None:
        # Compiled code takes seconds to load, and only workers encode.
        from ft_assets.workers.tokenizers import kernel

        super().__init__(other)
        self._encode, self._composed = kernel.encode, tables.composed
        style, digits = PATTERNS[tables.pattern]
        slots = 1 << (2 * len(tables.merges) + 2).bit_length()
        keys, values = np.empty(slots, np.uint64), np.empty((slots, 2), np.int32)
        left, right, merged = (np.ascontiguousarray(column) for column in tables.merges.T)
        kernel.fill_pairs(left, right, merged, keys, values)
        added, added_offsets = _packed([text.encode() for text in tables.added])
        heads = np.zeros(256, np.bool_)
        heads[added[added_offsets[:-1]]] = True
        self._tables = (
            kernel.character_classes(),
            style,
            digits,
            tables.byte_ids,
            keys,
            values,
            added,
            added_offsets,
            np.array(list(tables.added.values()), np.int32),
            heads,
        )
        room = 2 * max(_PIECES, len(tables.words))
        self._pieces = (
            np.zeros((1 << room.bit_length(), 4), np.int64),
            np.empty(16 * room, np.uint8),
            np.empty((4 * room, 2), np.int32),
            np.zeros(3, np.int64),
        )
        if tables.words:
            data, offsets = _packed(list(tables.words))
            kernel.remember_words(data, offsets, np.array(list(tables.words.values()), np.int32), *self._pieces)

    def _run(
        self, text: str, data: bytes, starts: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        ids, ends = np.empty(len(data), np.int32), np.empty(len(data), np.int64)
        counts = np.empty(len(starts), np.int64)
        if self._composed and not unicodedata.is_normalized("NFC", text):
            # The kernel gets them empty; the other engine encodes them.
            changed = np.array(
                [
                    not unicodedata.is_normalized("NFC", data[start:stop].decode())
                    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
                ]
            )
            starts = np.where(changed, stops, starts)
        else:
            changed = None
        total = self._encode(
            np.frombuffer(data, np.uint8).copy(), starts, stops, *self._tables, *self._pieces, ids, ends, counts
        )
        if changed is not None:
            counts[changed] = -1
        return ids[:total].copy(), ends[:total], counts


def _packed(texts: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Concatenated texts, and each one's start and end: uint8 [bytes], int64 [texts + 1]."""
    lengths = np.array([len(text) for text in texts], np.int64)
    return np.frombuffer(b"".join(texts), np.uint8).copy(), offsets_of(lengths)
