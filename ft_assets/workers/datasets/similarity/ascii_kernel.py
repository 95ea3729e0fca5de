"""ASCII texts without markup, as most are, folded eight letters at a time."""

import numpy as np
from numba import njit, uint64

from ft_assets.workers.datasets.similarity.folding import LINE
from ft_assets.workers.datasets.similarity.loads import load_8, store_8, trailing_zeros

SLACK = 16
"""Bytes that may be read and written beyond a text's end."""


@njit(inline="always")
def mixed(word, letters):  # type: ignore[no-untyped-def]
    """The hash of a word that continues with eight bytes of ``letters`` (fewer at its end, never 0)."""
    word = (word ^ letters) * uint64(0x9FB21C651E98DF25)
    return word ^ (word >> uint64(32))


@njit(inline="always")
def _within(byte, first, last):  # type: ignore[no-untyped-def]
    return np.uint8(byte - np.uint8(first)) <= np.uint8(last - first)


# Inlined, so that ``bare`` is known where it is called.
@njit(inline="always")
def fold_ascii(data, start, end, bare, letters, out, at, words, breaks, count):  # type: ignore[no-untyped-def]
    """Fold a text; returns where it and its words end, or -1 if it may have markup or is not ASCII.

    ``bare``: as ``folded.bare_texts``. ``letters`` has room for the text and SLACK: it gets letters, SPACE, BREAK and
    LINE.
    """
    size, beyond, markup = end - start, np.uint8(0), False
    # Without branches, so that the compiler vectorises it.
    for index in range(uint64(size)):
        byte = data[uint64(start) + index]
        lower = np.uint8(byte | np.uint8(0x20))
        letter, digit = _within(lower, 97, 122), _within(byte, 48, 57)
        # ! " ( ) . : ; ? |
        ends = (
            _within(byte, 33, 34) | _within(byte, 40, 41) | (byte == np.uint8(46)) | _within(byte, 58, 59)
            | (byte == np.uint8(63)) | (byte == np.uint8(124))
        )  # fmt: skip
        sign = np.uint8(LINE) if byte == np.uint8(10) else np.uint8(ends)
        if bare:
            # # $ % + / = > @ \ ^
            signs = (
                _within(byte, 35, 37) | (byte == np.uint8(43)) | (byte == np.uint8(47)) | _within(byte, 61, 62)
                | (byte == np.uint8(64)) | (byte == np.uint8(92)) | (byte == np.uint8(94))
            )  # fmt: skip
            sign = byte if signs else sign
        found = lower if letter else (byte if digit else sign)
        found = np.uint8(108) if (found == np.uint8(105)) | (found == np.uint8(49)) else found
        letters[index] = np.uint8(111) if found == np.uint8(48) else found
        beyond |= byte
        # & * < ] _ ` ~
        markup |= (
            (byte == np.uint8(38)) | (byte == np.uint8(42)) | (byte == np.uint8(60)) | (byte == np.uint8(93))
            | _within(byte, 95, 96) | (byte == np.uint8(126))
        )  # fmt: skip
    if markup or beyond >= np.uint8(0x80):
        return -1, count
    for index in range(size, size + SLACK):
        letters[index] = 0
    begin, place, ended, gap = at, 0, 0, np.uint8(LINE)
    while place < size:
        if letters[place] <= LINE:
            gap = max(gap, letters[place])
            place += 1
            continue
        if at > begin and (
            not bare or (_within(data[start + ended - 1], 48, 57) and _within(data[start + place], 48, 57))
        ):
            out[at] = 32
            at += 1
        breaks[count] = gap
        gap, word = np.uint8(0), uint64(0)
        while True:
            eight = load_8(letters, place)
            store_8(out, at, eight)
            # The lowest set bit marks the first byte that is not in a word; letters and digits are all above 0x20.
            high = (eight & uint64(0x6060606060606060)) + uint64(0x6060606060606060)
            zeros = ~high & uint64(0x8080808080808080)
            if zeros == 0:
                word = mixed(word, eight)
                place += 8
                at += 8
                continue
            bits = trailing_zeros(zeros) & ~7
            if bits:
                word = mixed(word, eight & ((uint64(1) << uint64(bits)) - uint64(1)))
            place += bits >> 3
            at += bits >> 3
            break
        words[count] = word
        count += 1
        ended = place
    return at, count
