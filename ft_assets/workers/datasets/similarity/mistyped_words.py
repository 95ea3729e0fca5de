"""Whether one of two nearly equal short texts has typing mistakes, or asks another question in the same words.

A few edits make "is milan the capital" of "is paris the capital". But mistakes make words that no other row has, while
other questions use words that some row has.
"""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ft_assets.workers.datasets.similarity.folded import fold_texts
from ft_assets.workers.datasets.similarity.mistyped import Letters

SHORT = 64
"""In texts of at least this many letters the distance is enough: no other question is as near."""
_KNOWN = 2
_SHARE = 0.6
_FEWEST_LETTERS = 2


def known_words(texts: pa.Array) -> set[str]:
    """The folded words that at least two of ``texts`` have."""
    words = pc.split_pattern(_folded(texts), " ")
    pairs = pa.table({"word": pc.list_flatten(words), "text": pc.list_parent_indices(words)})
    each = pairs.group_by(["word", "text"]).aggregate([]).column("word").value_counts()
    often = pc.greater_equal(each.field("counts"), _KNOWN)
    return set(each.field("values").filter(often).to_pylist())


def are_short(texts: pa.Array) -> np.ndarray:
    """Which of ``texts`` (bool) have fewer than SHORT letters."""
    short: np.ndarray = np.diff(Letters.of(texts).starts) < SHORT
    return short


def typed(texts: pa.Array, others: pa.Array, known: set[str]) -> np.ndarray:
    """Which pairs (bool) differ by typing mistakes in one of them: not in a digit, and most letters (_SHARE) of the
    words that only one of the two has are in words that are not ``known``."""
    pairs = zip(texts.to_pylist(), others.to_pylist(), strict=True)
    digits = [_digits(one) == _digits(other) for one, other in pairs]
    words = [[Counter(text.split()) for text in _folded(each).to_pylist()] for each in (texts, others)]
    return np.array(
        [
            same and (_mistaken(one - other, known) or _mistaken(other - one, known) or one == other)
            for same, one, other in zip(digits, *words, strict=True)
        ],
        np.bool_,
    )


def _mistaken(words: Counter[str], known: set[str]) -> bool:
    letters = sum(len(word) * count for word, count in words.items())
    new = sum(len(word) * words[word] for word in words if word not in known and len(word) >= _FEWEST_LETTERS)
    return letters > 0 and new >= _SHARE * letters


def _digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))


def _folded(texts: pa.Array) -> pa.LargeStringArray:
    folded = fold_texts(texts)
    return pa.LargeStringArray.from_buffers(len(texts), pa.py_buffer(folded.offsets), pa.py_buffer(folded.data))
