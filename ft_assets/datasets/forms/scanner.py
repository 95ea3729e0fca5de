"""numba kernels that read plain rows straight from bytes: JSON syntax, and texts that need little cleaning.

They decide nothing: whatever is not plain (an error, too, and every case that is rare) they leave to the Python path.
Functions that read return the place after what they read, or -1 to leave the row.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types, uint64
from numba.extending import intrinsic
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

# Entries of the table of code points: combining classes are 1 to 240, and these.
PLAIN, LEAVE, UNSEEN = 0, 255, 254
_MAX_DIGITS = 18
# Bytes that are looked at together.
_WIDE = 32


def _mask(builder: Any, letters: Any, *, beyond_ascii: bool) -> Any:
    """A bit for each of 32 bytes that is a control character or a backslash; DEL and above, or else a quote."""

    def are(how: str, value: int) -> Any:
        return builder.icmp_unsigned(how, letters, ir.Constant(letters.type, [value] * _WIDE))

    found = builder.or_(are("<", 32), are("==", 92))
    found = builder.or_(found, are(">=", 127) if beyond_ascii else are("==", 34))
    return builder.zext(builder.bitcast(found, ir.IntType(32)), ir.IntType(64))


def _wide(context: Any, builder: Any, kind: Any, array: Any, place: Any) -> Any:
    """Where 32 bytes begin, as a vector's place."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [place]), ir.VectorType(ir.IntType(8), _WIDE).as_pointer())


@intrinsic
def _quote_mask(typing: Any, data: Any, place: Any) -> Any:
    """Which of the 32 bytes at ``place`` end or interrupt a string: bits from the lowest."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        letters = builder.load(_wide(context, builder, signature.args[0], arguments[0], arguments[1]), align=1)
        return _mask(builder, letters, beyond_ascii=False)

    return types.uint64(data, types.int64), generate


@intrinsic
def _copy_wide(typing: Any, data: Any, place: Any, out: Any, at: Any) -> Any:
    """Copy 32 bytes; the lower 32 bits say which of them are not to be copied as they are, the upper which are spaces.

    LLVM makes no vectors of a loop that may end at any byte.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        letters = builder.load(_wide(context, builder, signature.args[0], arguments[0], arguments[1]), align=1)
        builder.store(letters, _wide(context, builder, signature.args[2], arguments[2], arguments[3]), align=1)
        spaces = builder.icmp_unsigned("==", letters, ir.Constant(letters.type, [32] * _WIDE))
        upper = builder.zext(builder.bitcast(spaces, ir.IntType(32)), ir.IntType(64))
        upper = builder.shl(upper, ir.Constant(ir.IntType(64), 32))
        return builder.or_(upper, _mask(builder, letters, beyond_ascii=True))

    return types.uint64(data, types.int64, out, types.int64), generate


@intrinsic
def _lowest(typing: Any, bits: Any) -> Any:
    """The number of the lowest bit that is set; 64 for none."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


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
        while place + _WIDE <= end:
            mask = _quote_mask(data, place)  # type: ignore[call-arg, var-annotated]
            if mask:
                place += _lowest(mask)
                break
            place += _WIDE
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
        # What is copied beyond the run is written over by what comes next.
        while place + _WIDE <= end:
            masks = _copy_wide(data, place, out, at)  # type: ignore[call-arg, var-annotated]
            run = min(_lowest(masks), _WIDE)
            seen = seen or (~masks >> uint64(32)) & ((uint64(1) << uint64(run)) - uint64(1)) != 0
            place += run
            at += run
            if run:
                last = 0
            if run < _WIDE:
                break
        if place == end:
            break
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
