"""A text's character 5-grams as keys, and open-addressing tables of such keys.

A shingle's key holds its five code points if all are below 4096 (Latin, Greek, Cyrillic, Hebrew, Arabic), else a 63-bit
hash of them. Two of the 1,000 shingles of a pair of texts share a hash with a probability below 1e-13.
"""

import numpy as np
from numba import njit, uint64

from ft_assets.workers.datasets.similarity.hashing import SHINGLE, mix64

_LOW = np.uint64(0xFFFFFFFFFFFF)
_BIG = np.int64(4096)


@njit(nogil=True)
def code_point(data, at):  # type: ignore[no-untyped-def]
    """The code point at ``at`` of valid UTF-8, and its number of bytes."""
    lead = np.int64(data[at])
    if lead < 0x80:
        return lead, 1
    if lead < 0xE0:
        return ((lead & 0x1F) << 6) | (data[at + 1] & 0x3F), 2
    if lead < 0xF0:
        return ((lead & 0x0F) << 12) | ((data[at + 1] & 0x3F) << 6) | (data[at + 2] & 0x3F), 3
    tail = ((data[at + 1] & 0x3F) << 12) | ((data[at + 2] & 0x3F) << 6) | (data[at + 3] & 0x3F)
    return ((lead & 0x07) << 18) | tail, 4


@njit(nogil=True)
def shingle_keys(data, start, end, keys):  # type: ignore[no-untyped-def]
    """Write the keys of a text's shingles, in order, to ``keys`` (size: the text's bytes + 1); returns their number."""
    at, letters, count = start, 0, 0
    packed, hashed, big = uint64(0), uint64(0), -SHINGLE
    last = np.zeros(SHINGLE, np.int64)
    while at < end:
        code, size = code_point(data, at)
        at += size
        last[letters % SHINGLE] = code
        if code >= _BIG:
            big = letters
        packed = ((packed & _LOW) << uint64(12)) | uint64(code & (_BIG - 1))
        letters += 1
        if letters >= SHINGLE:
            if letters - 1 - big < SHINGLE:
                hashed = uint64(0)
                for back in range(SHINGLE):
                    hashed = mix64(hashed + uint64(last[(letters + back) % SHINGLE]) + uint64(1))
                keys[count] = hashed | uint64(1 << 63)
            else:
                keys[count] = packed
            count += 1
    if 0 < letters < SHINGLE:
        hashed = uint64(letters)
        for index in range(letters):
            hashed = mix64(hashed + uint64(last[index]) + uint64(1))
        # No five packed code points reach these bits: a short text matches only an equal text.
        keys[0] = (hashed | uint64(1 << 63)) if big >= 0 else (packed | (uint64(letters) << uint64(60)))
        count = 1
    return count


@njit(nogil=True)
def _slot(key, size):  # type: ignore[no-untyped-def]
    """Where a key is counted, or looked for first, in a table whose size is a power of two."""
    return ((key * uint64(0x9E3779B97F4A7C15)) >> uint64(32)) & uint64(size - 1)


@njit(nogil=True)
def slot_of(key, table, stamps, stamp):  # type: ignore[no-untyped-def]
    """Where ``key`` is in the open-addressing ``table`` under ``stamp``, or would be put."""
    mask, slot = uint64(len(table) - 1), _slot(key, len(table))
    while stamps[slot] == stamp and table[slot] != key:
        slot = (slot + uint64(1)) & mask
    return slot


@njit(nogil=True)
def fill(keys, count, table, stamps, stamp):  # type: ignore[no-untyped-def]
    """Put ``keys[:count]`` into the ``table`` under ``stamp``; returns how many are distinct."""
    distinct = 0
    for index in range(count):
        slot = slot_of(keys[index], table, stamps, stamp)
        if stamps[slot] != stamp:
            stamps[slot], table[slot] = stamp, keys[index]
            distinct += 1
    return distinct


@njit(nogil=True)
def tables(room):  # type: ignore[no-untyped-def]
    """A table for ``room`` keys, with their stamps and marks. It is never emptied: the next text has another stamp."""
    size = 64
    while size < 2 * room:
        size *= 2
    return np.empty(size, np.uint64), np.zeros(size, np.int64), np.zeros(size, np.int64)
