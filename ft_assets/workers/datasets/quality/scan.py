"""numba kernel of the heuristics: repetition, in one pass over the bytes of each text. For workers only.

Texts come as in ``similarity.hashing``: ``offsets`` int64 [n + 1] and ``data`` uint8, UTF-8. A word is a run between
ASCII white space; for scripts without spaces, every character from U+3000 to U+9FFF is a word.
"""

import numpy as np
from numba import njit, uint64

NGRAM = 5
# Words per text that repetition counts: the rest of a long book changes the share little.
MOST_WORDS = 1 << 16

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)

# Classes of bytes: white space, part of a word, or the first byte of a character that is a word.
_SPACE, _LETTER, _ALONE = 0, 1, 2
_KINDS = np.ones(256, np.uint8)
_KINDS[[9, 10, 11, 12, 13, 32]] = _SPACE
_KINDS[0xE3:0xEA] = _ALONE


@njit(cache=True, nogil=True, forceinline=True)
def is_space(byte):  # type: ignore[no-untyped-def]
    return byte == 32 or (9 <= byte <= 13)


@njit(cache=True, nogil=True, forceinline=True)
def _mix(h):  # type: ignore[no-untyped-def]
    h ^= h >> uint64(33)
    h *= _P2
    h ^= h >> uint64(29)
    return h


@njit(cache=True, nogil=True, forceinline=True)
def _seen(table, stamps, stamp, mask, h):  # type: ignore[no-untyped-def]
    """Whether ``h`` is already in the table; it is added otherwise. Entries with other stamps are free slots."""
    place = h & mask
    while stamps[place] == stamp:
        if table[place] == h:
            return True
        place = (place + uint64(1)) & mask
    stamps[place] = stamp
    table[place] = h
    return False


@njit(cache=True, nogil=True)
def count_repeats(offsets, data, repetition):  # type: ignore[no-untyped-def]
    """Fill ``repetition`` float32 [n]: the larger of two shares of each text; 0 below 2 * NGRAM words.

    The shares are the 5-word sequences that occurred before in the text, and the word bytes in lines that occurred
    before.
    """
    longest = 0
    for text in range(len(offsets) - 1):
        longest = max(longest, offsets[text + 1] - offsets[text])
    size = _places(longest)
    table = np.empty(size, np.uint64)
    stamps = np.zeros(size, np.int32)
    for text in range(len(offsets) - 1):
        at, end = uint64(offsets[text]), uint64(offsets[text + 1])
        mask = uint64(_places(offsets[text + 1] - offsets[text]) - 1)
        stamp = np.int32(text + 1)
        words = grams = repeated = 0
        line_bytes = repeated_bytes = length = uint64(0)
        line = _P5
        first = second = third = fourth = uint64(0)
        while at < end and words < MOST_WORDS:
            kind = _KINDS[data[at]]
            if kind == _SPACE:
                if data[at] == 10 and length:
                    line_bytes += length
                    if _seen(table, stamps, stamp, mask, _mix(line)):
                        repeated_bytes += length
                    line = _P5
                    length = uint64(0)
                at += uint64(1)
                continue
            begin = at
            word = _P1
            if kind == _ALONE:
                stop = at + uint64(3)
                while at < stop:
                    word = (word ^ uint64(data[at])) * _P2
                    at += uint64(1)
            else:
                while at < end and _KINDS[data[at]] == _LETTER:
                    word = (word ^ uint64(data[at])) * _P2
                    at += uint64(1)
            length += at - begin
            line = (line ^ word) * _P1
            words += 1
            if words >= NGRAM:
                grams += 1
                gram = _mix(first * _P1 + second * _P2 + third * _P3 + fourth * _P4 + word * _P5)
                if _seen(table, stamps, stamp, mask, gram):
                    repeated += 1
            first, second, third, fourth = second, third, fourth, word
        if length:
            line_bytes += length
            if _seen(table, stamps, stamp, mask, _mix(line)):
                repeated_bytes += length
        repetition[text] = 0.0
        if words >= 2 * NGRAM:
            repetition[text] = max(repeated / grams, repeated_bytes / line_bytes)


@njit(cache=True, nogil=True, forceinline=True)
def _places(length):  # type: ignore[no-untyped-def]
    """Size of the table for a text of ``length`` bytes: a power of two, at most half full.

    A word takes two bytes with its space (or three without), and a line at least one word.
    """
    places = 64
    while places < 2 * min(length, 2 * MOST_WORDS):
        places *= 2
    return places
