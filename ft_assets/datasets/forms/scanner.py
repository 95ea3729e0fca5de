"""numba kernels that read plain rows straight from bytes: JSON syntax, and texts that need little cleaning.

They decide nothing: whatever is not plain (an error, too, and every case that is rare) they leave to the Python path.
Functions that read return the place after what they read, or -1 to leave the row.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

# Entries of the table of code points: combining classes are 1 to 240, and these.
PLAIN, LEAVE, UNSEEN = 0, 255, 254
_MAX_DIGITS = 18


@njit(cache=True, nogil=True, inline="always")
def skip_space(data: Bytes, place: int, end: int) -> int:
    """First place from ``place`` that is no JSON white space."""
    while place < end and (data[place] == 32 or data[place] == 9 or data[place] == 13):
        place += 1
    return place


@njit(cache=True, nogil=True)
def find_quote(data: Bytes, place: int, end: int) -> int:
    """Place of the quote that ends the string whose first character is at ``place``; -1 where there is none."""
    while place < end:
        byte = data[place]
        if byte > 34 and byte != 92:
            place += 1
            continue
        if byte == 34:
            return place
        if byte == 92:
            place += 1
        elif byte < 32:
            return -1
        place += 1
    return -1


@njit(cache=True, nogil=True)
def find_key_end(data: Bytes, place: int, end: int) -> int:
    """As ``find_quote``, for plain ASCII without escapes only."""
    while place < end:
        byte = data[place]
        if byte == 34:
            return place
        if byte == 92 or byte < 32 or byte > 126:
            return -1
        place += 1
    return -1


@njit(cache=True, nogil=True)
def skip_scalar(data: Bytes, place: int, end: int) -> int:
    """Place after the number, true, false or null at ``place``; numbers of few digits and without exponent only."""
    first = data[place]
    if first == 116 and place + 4 <= end:
        same = data[place + 1] == 114 and data[place + 2] == 117 and data[place + 3] == 101
        return place + 4 if same else -1
    if first == 110 and place + 4 <= end:
        same = data[place + 1] == 117 and data[place + 2] == 108 and data[place + 3] == 108
        return place + 4 if same else -1
    if first == 102 and place + 5 <= end:
        same = data[place + 1] == 97 and data[place + 2] == 108 and data[place + 3] == 115 and data[place + 4] == 101
        return place + 5 if same else -1
    if first == 45:
        place += 1
    start = place
    while place < end and 48 <= data[place] <= 57:
        place += 1
    digits = place - start
    if digits == 0 or digits > _MAX_DIGITS or (digits > 1 and data[start] == 48):
        return -1
    if place < end and data[place] == 46:
        place += 1
        start = place
        while place < end and 48 <= data[place] <= 57:
            place += 1
        if place == start or place - start > _MAX_DIGITS:
            return -1
    # What follows decides: the caller finds neither comma nor bracket after a number that goes on (an exponent).
    return place


@njit(cache=True, nogil=True)
def _hex4(data: Bytes, place: int, end: int) -> int:
    """The number that the four hexadecimal digits at ``place`` write; -1 where they do not."""
    if place + 4 > end:
        return -1
    value = 0
    for at in range(place, place + 4):
        byte = data[at]
        if 48 <= byte <= 57:
            digit = byte - 48
        elif 97 <= byte <= 102:
            digit = byte - 87
        elif 65 <= byte <= 70:
            digit = byte - 55
        else:
            return -1
        value = value * 16 + digit
    return value


@njit(cache=True, nogil=True)
def _code_point(data: Bytes, place: int, end: int) -> tuple[int, int]:
    """The code point of more than one byte at ``place``, and the place after it; -1 where this is not UTF-8."""
    lead = data[place]
    if lead < 0xC2 or lead > 0xF4:
        return -1, place
    length = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    if place + length > end:
        return -1, place
    point = int(lead) & (0x7F >> length)
    for at in range(place + 1, place + length):
        if data[at] & 0xC0 != 0x80:
            return -1, place
        point = (point << 6) | (int(data[at]) & 0x3F)
    if length == 3 and (point < 0x800 or 0xD800 <= point <= 0xDFFF):
        return -1, place
    if length == 4 and (point < 0x10000 or point > 0x10FFFF):
        return -1, place
    return point, place + length


@njit(cache=True, nogil=True)
def _write_point(point: int, out: Bytes, at: int) -> int:
    if point < 0x80:
        out[at] = point
        return at + 1
    if point < 0x800:
        out[at] = 0xC0 | (point >> 6)
        out[at + 1] = 0x80 | (point & 0x3F)
        return at + 2
    if point < 0x10000:
        out[at] = 0xE0 | (point >> 12)
        out[at + 1] = 0x80 | ((point >> 6) & 0x3F)
        out[at + 2] = 0x80 | (point & 0x3F)
        return at + 3
    out[at] = 0xF0 | (point >> 18)
    out[at + 1] = 0x80 | ((point >> 12) & 0x3F)
    out[at + 2] = 0x80 | ((point >> 6) & 0x3F)
    out[at + 3] = 0x80 | (point & 0x3F)
    return at + 4


@njit(cache=True, nogil=True)
def _escaped_point(data: Bytes, place: int, end: int) -> tuple[int, int]:
    """The code point that ``\\uXXXX`` (two, for a surrogate pair) at ``place`` writes, and the place after it."""
    point = _hex4(data, place + 2, end)
    place += 6
    if 0xD800 <= point <= 0xDFFF:
        if point > 0xDBFF or place + 6 > end or data[place] != 92 or data[place + 1] != 117:
            return -1, place
        low = _hex4(data, place + 2, end)
        if low < 0xDC00 or low > 0xDFFF:
            return -1, place
        point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00)
        place += 6
    return point, place


@njit(cache=True, nogil=True)
def write_text(data: Bytes, place: int, end: int, points: Bytes, out: Bytes, at: int) -> tuple[int, bool, bool]:
    """Write the JSON string ``data[place:end]`` to ``out`` from ``at`` as ``clean`` would give it.

    ``points`` has an entry for each code point: PLAIN, its combining class, UNSEEN for those that ``is_blank`` does not
    see, LEAVE for those that may compose or change. Returns the end in ``out`` (-1 to leave the row), whether anything
    can be seen, and whether ``clean`` changed the text.
    """
    start = at
    seen = changed = False
    last = 0
    while place < end:
        byte = data[place]
        begin = place
        other_than_space = np.uint8(0)
        while byte >= 32 and byte < 127 and byte != 92:
            other_than_space |= byte ^ np.uint8(32)
            out[at] = byte
            at += 1
            place += 1
            if place == end:
                break
            byte = data[place]
        if place > begin:
            seen = seen or other_than_space != 0
            last = 0
            continue
        if byte == 92 and data[place + 1] != 117:
            what = data[place + 1]
            place += 2
            last = 0
            if what == 110:
                out[at] = 10
            elif what == 116:
                out[at] = 9
            elif what == 34 or what == 92 or what == 47:
                out[at] = what
                seen = True
            elif what == 114:
                changed = True
                if place + 1 < end and data[place] == 92:
                    if data[place + 1] == 110:
                        continue  # the line feed that follows is written instead
                    if data[place + 1] == 117:
                        return -1, False, False
                out[at] = 10
            else:
                return -1, False, False
            at += 1
            continue
        if byte == 92:
            point, place = _escaped_point(data, place, end)
        elif byte >= 128:
            point, place = _code_point(data, place, end)
        else:
            return -1, False, False
        if point < 32 or (127 <= point < 160) or (point == 0xFEFF and at == start):
            return -1, False, False
        entry = points[point]
        if entry == LEAVE:
            return -1, False, False
        if entry == UNSEEN:
            last = 0
        else:
            if entry != 0 and last > entry:
                return -1, False, False
            last = entry
            seen = True
        at = _write_point(point, out, at)
    return at, seen, changed
