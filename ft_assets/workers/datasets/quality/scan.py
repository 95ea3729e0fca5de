"""numba kernels of the heuristics: words and repetition, one pass over the bytes of each text. For workers only.

Texts come as in ``similarity.hashing``: ``offsets`` int64 [n + 1] and ``data`` uint8, UTF-8. A word is what stands
between ASCII white space; of scripts without spaces every character from U+3000 to U+9FFF is one.
"""

import numpy as np
from numba import njit, uint64

NGRAM = 5
# Words of one text that repetition looks at: the rest of a whole book changes the share little.
MOST_WORDS = 1 << 16

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)

# What a byte is: white space, part of a word, or the first of a character that is a word.
_SPACE, _LETTER, _ALONE = 0, 1, 2
_KINDS = np.ones(256, np.uint8)
_KINDS[[9, 10, 11, 12, 13, 32]] = _SPACE
_KINDS[0xE3:0xEA] = _ALONE


@njit(cache=True, nogil=True, inline="always")
def is_space(byte):  # type: ignore[no-untyped-def]
    return byte == 32 or (9 <= byte <= 13)


@njit(cache=True, nogil=True, inline="always")
def _mix(h):  # type: ignore[no-untyped-def]
    h ^= h >> uint64(33)
    h *= _P2
    h ^= h >> uint64(29)
    return h


@njit(cache=True, nogil=True, inline="always")
def _seen(table, stamps, stamp, mask, h):  # type: ignore[no-untyped-def]
    """Whether ``h`` is in the table already; it is afterwards. Entries of other stamps are free places."""
    place = h & mask
    while stamps[place] == stamp:
        if table[place] == h:
            return True
        place = (place + uint64(1)) & mask
    stamps[place] = stamp
    table[place] = h
    return False


@njit(cache=True, nogil=True)
def count_characters(offsets, data, characters):  # type: ignore[no-untyped-def]
    """Fill ``characters`` int32 [n]: code points, which are the bytes that continue no other."""
    for text in range(len(offsets) - 1):
        count = 0
        for byte in data[offsets[text] : offsets[text + 1]]:
            count += (byte & 0xC0) != 0x80
        characters[text] = count


@njit(cache=True, nogil=True)
def count_words(offsets, data, words):  # type: ignore[no-untyped-def]
    """Fill ``words`` int32 [n]; letters that follow a character that is a word by itself count as part of it."""
    for text in range(len(offsets) - 1):
        before = np.uint8(32)
        count = 0
        # Sums of comparisons, without a branch: the compiler makes vectors of them.
        for byte in data[offsets[text] : offsets[text + 1]]:
            space_before = (before == 32) | ((before >= 9) & (before <= 13))
            space = (byte == 32) | ((byte >= 9) & (byte <= 13))
            alone = (byte >= 0xE3) & (byte <= 0xE9)
            count += (space_before | alone) & (not space)
            before = byte
        words[text] = count


@njit(cache=True, nogil=True)
def count_repeats(offsets, data, repetition):  # type: ignore[no-untyped-def]
    """Fill ``repetition`` float32 [n]: the larger of two shares of each text; 0 below 2 * NGRAM words.

    Of its 5-word sequences, those that stood before in the text; of the bytes in its words, those in lines that
    stood before.
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


@njit(cache=True, nogil=True, inline="always")
def _places(length):  # type: ignore[no-untyped-def]
    """Size of a table for a text of ``length`` bytes, a power of two: half of it stays free, as a word has two bytes
    with its space (or three without), and a line at least a word."""
    places = 64
    while places < 2 * min(length, 2 * MOST_WORDS):
        places *= 2
    return places
