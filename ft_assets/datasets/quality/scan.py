"""numba kernels of the heuristics: one pass over the bytes of each text. Imported by workers only."""

import numpy as np
from numba import njit, uint64

NGRAM = 5
# Words of one text that repetition looks at: the rest of a whole book changes the share little.
MOST_WORDS = 1 << 16

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_LINE_SEED = np.uint64(0x27D4EB2F165667C5)


@njit(cache=True, nogil=True, inline="always")
def _mix(h):  # type: ignore[no-untyped-def]
    h ^= h >> uint64(33)
    h *= _P2
    h ^= h >> uint64(29)
    h *= _P3
    h ^= h >> uint64(32)
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


@njit(cache=True, nogil=True, inline="always")
def is_space(byte):  # type: ignore[no-untyped-def]
    return byte == 32 or (9 <= byte <= 13)


@njit(cache=True, nogil=True)
def count_words(offsets, data, words):  # type: ignore[no-untyped-def]
    """``words`` int32 [n]: runs of bytes between ASCII white space; in scripts without spaces (Chinese, Japanese)
    every character from U+3000 to U+9FFF is one."""
    for text in range(len(offsets) - 1):
        count = 0
        inside = False
        for at in range(offsets[text], offsets[text + 1]):
            byte = data[at]
            if is_space(byte):
                inside = False
            elif 0xE3 <= byte <= 0xE9:
                count += 1
                inside = False
            elif not inside and (byte < 0x80 or byte >= 0xC0):
                count += 1
                inside = True
        words[text] = count


@njit(cache=True, nogil=True)
def count_repeats(offsets, data, repetition):  # type: ignore[no-untyped-def]
    """``repetition`` float32 [n]: the larger of two shares of each text.

    Of its 5-word sequences, those that stood before in the text; of the bytes in its lines, those in lines that stood
    before. Words are as in ``count_words``; 0 for texts of fewer than 2 * NGRAM words.
    """
    longest = 0
    for text in range(len(offsets) - 1):
        longest = max(longest, offsets[text + 1] - offsets[text])
    # At most a word for every byte, and a line for every word: half of the table stays free.
    size = 64
    while size < 4 * min(longest, MOST_WORDS):
        size *= 2
    table = np.empty(size, np.uint64)
    stamps = np.zeros(size, np.int32)
    ring = np.zeros(NGRAM, np.uint64)
    for text in range(len(offsets) - 1):
        start, end = offsets[text], offsets[text + 1]
        room = 64
        while room < 4 * min(end - start, MOST_WORDS):
            room *= 2
        mask = uint64(room - 1)
        stamp = np.int32(text + 1)
        words = grams = repeated = 0
        line_bytes = repeated_bytes = 0
        word = _P1
        line = _LINE_SEED
        inside = single = False
        length = 0
        at = start
        while at <= end and words < MOST_WORDS:
            byte = data[at] if at < end else np.uint8(10)
            space = is_space(byte)
            alone = 0xE3 <= byte <= 0xE9
            if inside and (space or alone or single):
                inside = single = False
                h = _mix(word)
                line = (line ^ h) * _P1
                ring[words % NGRAM] = h
                words += 1
                if words >= NGRAM:
                    grams += 1
                    g = uint64(0)
                    for k in range(NGRAM):
                        g = (g ^ ring[(words + k) % NGRAM]) * _P1
                    repeated += _seen(table, stamps, stamp, mask, _mix(g))
            if space:
                if byte == 10 and length:
                    line_bytes += length
                    if _seen(table, stamps, stamp, mask, _mix(line)):
                        repeated_bytes += length
                    line = _LINE_SEED
                    length = 0
            elif alone:
                # A word of three bytes, which the next turn of the loop closes.
                word = _P1
                for k in range(3):
                    word = (word ^ uint64(data[at + k])) * _P2
                length += 3
                at += 2
                inside = single = True
            else:
                if not inside:
                    word = _P1
                    inside = True
                word = (word ^ uint64(byte)) * _P2
                length += 1
            at += 1
        if words >= 2 * NGRAM:
            repetition[text] = max(repeated / grams, repeated_bytes / max(line_bytes, 1))
        else:
            repetition[text] = 0.0
