"""Folded texts and their words: in the letters of ``folding``, with one blank between two words.

Markup is removed: HTML's tags and comments, Markdown's marks inside and around words, addresses of links, entities. A
word is a run of letters and digits. Han characters and kana, which are written without spaces, are one word each, but
no blank is put between them. Runs of Thai, Lao, Khmer and Burmese, also without spaces, stay one word each.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ft_assets.workers.datasets.similarity.fold_kernel import fold
from ft_assets.workers.datasets.similarity.folding import letter_table, sign_table
from ft_assets.workers.datasets.similarity.hashing import text_buffers


@dataclass(frozen=True, slots=True)
class Folded:
    """Texts folded, and their words.

    Args:
        offsets: int64 [n + 1], where each text begins and ends in ``data``.
        data: uint8, UTF-8, and SLACK bytes more.
        starts: int64 [n + 1], where each text's words begin in ``words``.
        words: uint64, a hash of each word.
        breaks: uint8, what precedes each word: 0 another word, 1 a sentence's end, 2 a line's end or the text's start.
    """

    offsets: np.ndarray
    data: np.ndarray
    starts: np.ndarray
    words: np.ndarray
    breaks: np.ndarray


def fold_texts(texts: pa.Array | pa.ChunkedArray) -> Folded:
    """``texts`` (null counts as "") folded. Raises TypeError for an array that is not of strings."""
    return Folded(*fold(*text_buffers(texts), letter_table(), False))


def bare_texts(texts: pa.Array | pa.ChunkedArray) -> pa.LargeStringArray:
    """``texts`` folded, to be compared by letters: without blanks and punctuation, with signs that mean something.

    Blanks between digits stay, so that "3, 12" is not "31, 2", and so do signs, so that "3 + 4" is not "3 = 4". "-" is
    removed like punctuation; "*" stays between digits.
    """
    offsets, data, _, _, _ = fold(*text_buffers(texts), sign_table(), True)
    return pa.LargeStringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(data))
