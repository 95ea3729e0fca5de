"""Finds the texts that hide something from the scan: by characters that must be folded (see ``folding``), or in words.

Each is one pass over the UTF-8 that costs a few comparisons for each byte.
"""

import numba
import numpy as np

from ft_assets.workers.datasets.screening import tables

_MIN_DIGITS = 7
# Shorter numbers separated by dashes are years and scores.
_MIN_SEPARATED = 10
_REACH = 40


@numba.njit(cache=True, nogil=True)
def find_hidden(bits, data, offsets, fold):  # type: ignore[no-untyped-def]
    """Set ``fold`` (bool [n], all False) to True for texts with numbers or addresses that only folding shows.

    ``bits`` is ``tables.BITS``; ``data`` (uint8) and ``offsets`` (int32 [n + 1]) are the texts.
    """
    longest = 0
    for text in range(len(offsets) - 1):
        longest = max(longest, offsets[text + 1] - offsets[text])
    marks = np.zeros((longest + 15) // 8 * 8, np.uint8)
    eights = marks.view(np.uint64)
    for text in range(len(offsets) - 1):
        first, last = np.int64(offsets[text]), np.int64(offsets[text + 1])
        _mark(data[first:last], marks)
        digits = 0
        for eight in range((last - first + 7) // 8):
            if eights[eight] == 0 or fold[text]:
                continue
            for i in range(first + 8 * eight, min(first + 8 * eight + 8, last)):
                if marks[i - first] == 0:
                    continue
                what = _look_at(bits, data, first, i, last)
                digits += what == 1
                fold[text] = fold[text] or what == 2 or digits >= _MIN_DIGITS
                if not fold[text] and _separator_width(data, i, last):
                    fold[text] = _digits_around(bits, data, first, i, last) >= _MIN_SEPARATED


@numba.njit(cache=True, nogil=True)
def find_masked(data, offsets, masked):  # type: ignore[no-untyped-def]
    """Set ``masked`` (bool [n], all False) to True for texts with "[at]", a word "dot", or an at sign as ``&#64;``."""
    for text in range(len(offsets) - 1):
        first, last = np.int64(offsets[text]), np.int64(offsets[text + 1])
        masked[text] = _count_masks(data[first:last]) > 0


@numba.njit(cache=True, nogil=True)
def _count_masks(text):  # type: ignore[no-untyped-def]
    """Places of what hides an at sign or a dot; without branches, so that it is compiled to vector compares."""
    count = 0
    for i in range(1, len(text) - 3):
        before, one, two, three, four = text[i - 1], text[i] | 32, text[i + 1] | 32, text[i + 2], text[i + 3]
        opened = (before == 91) | (before == 40) | (before == 123) | (before == 60)
        closed = (three == 93) | (three == 41) | (three == 125) | (three == 62)
        at = (one == 97) & (two == 116) & opened & closed
        apart = (before == 32) | (before == 95) | opened
        ended = (four == 32) | (four == 95) | (four == 93) | (four == 41) | (four == 125) | (four == 62)
        dot = (one == 100) & (two == 111) & ((three | 32) == 116) & apart & ended
        entity = (before == 35) & (text[i] == 54) & (text[i + 1] == 52) & (three == 59)
        count += at | dot | entity
    return count


@numba.njit(cache=True, nogil=True)
def _mark(text, marks):  # type: ignore[no-untyped-def]
    """1 in ``marks`` for first bytes of other scripts' digits, invisible characters and what looks like separators."""
    for i in range(len(text)):
        byte = text[i]
        marks[i] = (byte == 0xC2) | (byte == 0xD9) | (byte == 0xDB) | (byte == 0xE0) | (byte == 0xE2) | (byte >= 0xEF)


@numba.njit(cache=True, nogil=True)
def _digits_around(bits, data, first, i, last):  # type: ignore[no-untyped-def]
    """Digits of the number around the separator at ``i``, with up to three separators between two digits.

    At most 40 bytes on each side are looked at, so time is linear.
    """
    digits = gap = 0
    at = i
    while at > first and i - at < _REACH and gap <= 3:
        if 48 <= data[at - 1] <= 57:
            digits += 1
            gap = 0
            at -= 1
            continue
        gap += 1
        if bits[data[at - 1]] & tables.SEPARATOR:
            at -= 1
        elif at - 3 >= first and _separator_width(data, at - 3, last) == 3:
            at -= 3
        elif at - 2 >= first and _separator_width(data, at - 2, last) == 2:
            at -= 2
        else:
            break
    at, gap = i, 0
    while at < last and at - i < _REACH and gap <= 3:
        if 48 <= data[at] <= 57:
            digits += 1
            gap = 0
            at += 1
            continue
        gap += 1
        if bits[data[at]] & tables.SEPARATOR:
            at += 1
        else:
            width = _separator_width(data, at, last)
            if width == 0:
                break
            at += width
    return digits


@numba.njit(cache=True, nogil=True)
def _separator_width(data, i, last):  # type: ignore[no-untyped-def]
    """Length in bytes of the non-ASCII space, hyphen, dash or invisible character at ``i``; 0 for anything else."""
    if i + 1 < last and data[i] == 0xC2 and (data[i + 1] == 0xA0 or data[i + 1] == 0xAD):
        return 2
    if i + 2 < last:
        one, two, three = data[i], data[i + 1], data[i + 2]
        if one == 0xE2 and (
            (two == 0x80 and (0x80 <= three <= 0x95 or three == 0xAF))
            or (two == 0x81 and 0xA0 <= three <= 0xA4)
            or (two == 0x88 and three == 0x92)
        ):
            return 3
        if one == 0xEF and ((two == 0xBB and three == 0xBF) or (two == 0xBC and (three == 0x8D or three == 0x8E))):
            return 3
    return 0


@numba.njit(cache=True, nogil=True)
def _look_at(bits, data, first, i, last):  # type: ignore[no-untyped-def]
    """For the non-ASCII character at ``i``: 1 for a digit of another script, 2 for one that hides its neighbours."""
    if i + 1 >= last:
        return 0
    one, two = data[i], data[i + 1]
    three = data[i + 2] if i + 2 < last else 0
    if one == 0xD9 or one == 0xDB:
        low = 0xA0 if one == 0xD9 else 0xB0
        return 1 if low <= two <= low + 9 else 0
    if one == 0xE0:
        # Devanagari, Bengali, Thai.
        return 1 if (two in (0xA5, 0xA7) and 0xA6 <= three <= 0xAF) or (two == 0xB9 and 0x90 <= three <= 0x99) else 0
    if one == 0xF0:
        # Mathematical digits, such as bold ones.
        return 1 if two == 0x9D and three == 0x9F else 0
    if one == 0xEF and two == 0xBC:
        if 0x90 <= three <= 0x99:
            return 1
        return 2 if three == 0xA0 else 0
    width = 0
    if one == 0xC2 and two == 0xAD:
        width = 2
    elif one == 0xE2:
        width = 3 if (two == 0x80 and 0x8B <= three <= 0x8F) or (two == 0x81 and 0xA0 <= three <= 0xA4) else 0
    elif one == 0xEF:
        width = 3 if two == 0xBB and three == 0xBF else 0
    if width and i > first and i + width < last:
        before, after = data[i - 1], data[i + width]
        if before < 128 and after < 128:
            left, right = bits[before] & tables.LOCAL or before == 64, bits[after] & tables.LOCAL or after == 64
            return 2 if left and right else 0
    return 0
