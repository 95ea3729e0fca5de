"""Draws rows by their content keys: a sha256 acts as a random number that depends on the content, not the position."""

import numpy as np
import pyarrow as pa


def leading_words(keys: pa.FixedSizeBinaryArray) -> np.ndarray:
    """The first 8 of each key's 32 bytes as an unsigned big-endian number ``[n]``; it sorts like the keys."""
    start = keys.offset
    data = np.frombuffer(keys.buffers()[1] or b"", np.uint8)[start * 32 : (start + len(keys)) * 32]
    return data.reshape(-1, 32)[:, :8].copy().view(">u8").reshape(-1).astype(np.uint64)


def draw_order(keys: pa.FixedSizeBinaryArray) -> np.ndarray:
    """Row indices ``[n]`` with the lowest key first; equal keys in the order of rows.

    Drawing k rows means taking the first k. A larger draw contains every smaller one, and one more row in the data
    displaces at most one other row.
    """
    return np.argsort(leading_words(keys), kind="stable")


def lowest(keys: pa.FixedSizeBinaryArray, count: int) -> np.ndarray:
    """The ``count`` rows with the lowest keys, as ascending row indices."""
    words = leading_words(keys)
    if len(words) > 4 * count:
        # All rows that can be among the lowest, without sorting the rest.
        near = np.flatnonzero(words <= np.partition(words, count)[count])
        return np.sort(near[np.argsort(words[near], kind="stable")[:count]])
    return np.sort(np.argsort(words, kind="stable")[:count])
