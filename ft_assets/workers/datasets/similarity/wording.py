"""Which characters of a text are its own, and which are common wording: in windows that many texts have."""

import numpy as np
from numba import njit, types, uint64

from ft_assets.workers.datasets.similarity.compiled import compiled
from ft_assets.workers.datasets.similarity.hashing import BYTES, SHINGLE, longest, mix64
from ft_assets.workers.datasets.similarity.shingles import shingle_keys, slot_of

WINDOW = 12
"""Characters of a window. Many texts of a language share any five characters, but twelve only by common wording."""
SLOTS = 1 << 23
"""Counters of the texts that a window is in. Windows with the same counter count as the more frequent of them."""
OWN_RUN = 3
"""Fewest characters in a row, outside of common windows, that count as a text's own. A letter mistyped in common
wording does not count: it is one character."""


@njit(nogil=True)
def _window(keys, at, slots):  # type: ignore[no-untyped-def]
    """The counter of the window that begins with the shingle ``at``: three shingles hold all of its characters."""
    hashed = mix64(keys[at] + mix64(keys[at + SHINGLE] + mix64(keys[at + WINDOW - SHINGLE])))
    return hashed & uint64(slots - 1)


@njit(nogil=True)
def find_own(keys, count, texts, most, own):  # type: ignore[no-untyped-def]
    """Set ``own[:count]`` for shingles that begin in a run of characters outside of common windows (those that more
    than ``most`` of the counted texts have)."""
    covered, run = 0, 0
    for index in range(count):
        if index + WINDOW - SHINGLE < count and texts[_window(keys, index, len(texts))] > most:
            covered = index + WINDOW
        run = 0 if index < covered else run + 1
        own[index] = run > 0
        if run == 0 and index > 0 and own[index - 1]:
            _drop_short(own, index)
    if count > 0 and own[count - 1]:
        _drop_short(own, count)


@njit(nogil=True)
def _drop_short(own, end):  # type: ignore[no-untyped-def]
    """Clear the run that ends before ``end`` if it is shorter than OWN_RUN."""
    start = end
    while start > 0 and own[start - 1]:
        start -= 1
    if end - start < OWN_RUN:
        own[start:end] = False


@njit(nogil=True)
def mark_own(keys, count, own, table, stamps, stamp, marks, mark):  # type: ignore[no-untyped-def]
    """Mark those of ``keys[:count]`` that are ``own`` and in the table; returns how many are distinct."""
    distinct = 0
    for index in range(count):
        if not own[index]:
            continue
        slot = slot_of(keys[index], table, stamps, stamp)
        if stamps[slot] == stamp and marks[slot] != mark:
            marks[slot] = mark
            distinct += 1
    return distinct


@njit(nogil=True)
def both(keys, count, table, stamps, stamp, marks, mark, owners, row):  # type: ignore[no-untyped-def]
    """How many distinct keys of ``keys[:count]`` are the own ones of the text in the table."""
    shared = 0
    for index in range(count):
        slot = slot_of(keys[index], table, stamps, stamp)
        if stamps[slot] == stamp and owners[slot] == row and marks[slot] != mark:
            marks[slot] = mark
            shared += 1
    return shared


@compiled(types.void(types.int64[::1], BYTES, types.uint16[::1]))
def count_texts(offsets, data, texts):  # type: ignore[no-untyped-def]
    """Add to ``texts`` (SLOTS counters) in how many of these texts each window is; at most 65,535 in all."""
    keys = np.empty(longest(offsets) + 1, np.uint64)
    last = np.full(len(texts), -1, np.int32)
    for row in range(len(offsets) - 1):
        count = shingle_keys(data, offsets[row], offsets[row + 1], keys)
        for index in range(count - WINDOW + SHINGLE):
            slot = _window(keys, index, len(texts))
            if last[slot] != row:
                last[slot] = row
                texts[slot] += np.uint16(1)
