"""Folded texts and their words: in the letters of ``folding``, with one blank between two words.

Markup goes: HTML's tags and comments, marks of Markdown inside and around words, addresses of links, entities. A word
is a run of letters and digits. Han characters and kana, which are written without spaces, are a word each, but no blank
is put between them. Runs of Thai, Lao, Khmer and Burmese, also without spaces, stay one word each.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numba import njit, types, uint64

from ft_assets.workers.datasets.similarity.folding import (
    END,
    LINE,
    MARKS,
    SEVERAL,
    SPACE,
    VANISH,
    letter_table,
    sign_table,
)
from ft_assets.workers.datasets.similarity.hashing import BYTES, text_buffers
from ft_assets.workers.datasets.similarity.loads import load_8, store_8, trailing_zeros

SLACK = 16
"""Bytes that may be read and written beyond a text's end."""
_TABLE = types.Array(types.uint32, 1, "C", readonly=True)
_MOST_TAG, _MOST_LINK, _MOST_ENTITY = 400, 400, 10
_SHIFTED = np.uint64(31)


def _named(names: str) -> np.ndarray:
    """The names' hashes, as ``_tag`` makes them."""
    found = []
    for name in names.split():
        value = 0
        for letter in name:
            value = (value * int(_SHIFTED) + ord(letter)) % (1 << 64)
        found.append(value)
    return np.array(found, np.uint64)


_INLINE = _named(
    "a abbr b bdi bdo big cite code del dfn em font i ins kbd mark q s samp small span strike strong sub sup tt u var"
    " wbr"
)
_BLOCK = _named(
    "article aside blockquote body br button caption center col dd details div dl dt fieldset figcaption figure footer"
    " form h1 h2 h3 h4 h5 h6 head header hr html img input label legend li main nav ol option p pre section select"
    " summary svg table tbody td textarea tfoot th thead title tr ul"
)


@dataclass(frozen=True, slots=True)
class Folded:
    """Texts folded, and their words.

    Args:
        offsets: int64 [n + 1], where each text begins and ends in ``data``.
        data: uint8, UTF-8, and SLACK bytes more.
        starts: int64 [n + 1], where each text's words begin in ``words``.
        words: uint64, a hash of each word.
        breaks: uint8, what a word stands behind: 0 for another word, 1 for a sentence's end, 2 for a line's or nothing.
    """

    offsets: np.ndarray
    data: np.ndarray
    starts: np.ndarray
    words: np.ndarray
    breaks: np.ndarray


def fold_texts(texts: pa.Array | pa.ChunkedArray) -> Folded:
    """``texts`` (null counts as "") folded. Raises TypeError for an array that is not of strings."""
    return Folded(*folded(*text_buffers(texts), letter_table(), False))


def bare_texts(texts: pa.Array | pa.ChunkedArray) -> pa.LargeStringArray:
    """``texts`` folded, to be compared by letters: without blanks and punctuation, with signs that mean something.

    Blanks stay between digits, so that "3, 12" is not "31, 2"; signs, so that "3 + 4" is not "3 = 4". "-" goes as
    punctuation does, "*" stays between digits.
    """
    offsets, data, _, _, _ = folded(*text_buffers(texts), sign_table(), True)
    return pa.LargeStringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(data))


def folded_text(text: str) -> str:
    """One text folded."""
    found = fold_texts(pa.array([text], pa.large_string()))
    return found.data[: found.offsets[1]].tobytes().decode()


@njit(inline="always")
def _mixed(word, letters):  # type: ignore[no-untyped-def]
    """The hash of a word that continues with eight bytes of ``letters`` (fewer at its end, never 0)."""
    word = (word ^ letters) * uint64(0x9FB21C651E98DF25)
    return word ^ (word >> uint64(32))


@njit(inline="always")
def _within(byte, first, last):  # type: ignore[no-untyped-def]
    return np.uint8(byte - np.uint8(first)) <= np.uint8(last - first)


# Inlined, so that ``bare`` is known where it is called.
@njit(inline="always")
def _ascii(data, start, end, bare, letters, out, at, words, breaks, count):  # type: ignore[no-untyped-def]
    """Fold a text without markup; returns where it and its words end, or -1 if it may have some or is not ASCII.

    ``bare``: as ``bare_texts``. ``letters`` has room for the text and SLACK: it gets letters, SPACE, BREAK and LINE.
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
            # The lowest set bit marks the first byte that is none; letters and digits are all above 0x20.
            high = (eight & uint64(0x6060606060606060)) + uint64(0x6060606060606060)
            zeros = ~high & uint64(0x8080808080808080)
            if zeros == 0:
                word = _mixed(word, eight)
                place += 8
                at += 8
                continue
            bits = trailing_zeros(zeros) & ~7
            if bits:
                word = _mixed(word, eight & ((uint64(1) << uint64(bits)) - uint64(1)))
            place += bits >> 3
            at += bits >> 3
            break
        words[count] = word
        count += 1
        ended = place
    return at, count


@njit(nogil=True)
def _code_point(data, at):  # type: ignore[no-untyped-def]
    lead = np.uint32(data[at])
    if lead < 0x80:
        return lead, 1
    if lead < 0xE0:
        return ((lead & np.uint32(0x1F)) << np.uint32(6)) | np.uint32(data[at + 1] & 0x3F), 2
    if lead < 0xF0:
        high = ((lead & np.uint32(0x0F)) << np.uint32(12)) | (np.uint32(data[at + 1] & 0x3F) << np.uint32(6))
        return high | np.uint32(data[at + 2] & 0x3F), 3
    code = (lead & np.uint32(0x07)) << np.uint32(18) | (np.uint32(data[at + 1] & 0x3F) << np.uint32(12))
    return code | (np.uint32(data[at + 2] & 0x3F) << np.uint32(6)) | np.uint32(data[at + 3] & 0x3F), 4


@njit(nogil=True)
def _put(out, at, code):  # type: ignore[no-untyped-def]
    """Write a code point (or SEVERAL) to ``out``; returns where it ends."""
    if code & np.uint32(SEVERAL):
        while code & np.uint32(0x7F):
            out[at] = code & np.uint32(0x7F)
            at += 1
            code = (code & np.uint32(0x1FFFFF)) >> np.uint32(7)
        return at
    if code < 0x80:
        out[at] = code
        return at + 1
    if code < 0x800:
        out[at], out[at + 1] = 0xC0 | (code >> np.uint32(6)), 0x80 | (code & np.uint32(0x3F))
        return at + 2
    if code < 0x10000:
        out[at], out[at + 1] = 0xE0 | (code >> np.uint32(12)), 0x80 | ((code >> np.uint32(6)) & np.uint32(0x3F))
        out[at + 2] = 0x80 | (code & np.uint32(0x3F))
        return at + 3
    out[at], out[at + 1] = 0xF0 | (code >> np.uint32(18)), 0x80 | ((code >> np.uint32(12)) & np.uint32(0x3F))
    out[at + 2], out[at + 3] = 0x80 | ((code >> np.uint32(6)) & np.uint32(0x3F)), 0x80 | (code & np.uint32(0x3F))
    return at + 4


@njit(nogil=True)
def _lower(byte):  # type: ignore[no-untyped-def]
    return byte | np.uint8(0x20) if np.uint8(65) <= byte <= np.uint8(90) else byte


@njit(nogil=True)
def _tag(data, at, end):  # type: ignore[no-untyped-def]
    """(end of the tag or comment that starts at ``at``, whether it breaks); the end is 0 for none.

    "a <b and c> d" is none: what follows a name are attributes with a value, or nothing.
    """
    place = at + 1
    if place + 2 < end and data[place] == 33 and data[place + 1] == 45 and data[place + 2] == 45:
        for index in range(place + 3, end - 2):
            if data[index] == 45 and data[index + 1] == 45 and data[index + 2] == 62:
                return index + 3, False
        return 0, False
    if place < end and data[place] == 47:
        place += 1
    name = uint64(0)
    while place < end:
        byte = _lower(data[place])
        if not (np.uint8(97) <= byte <= np.uint8(122) or np.uint8(48) <= byte <= np.uint8(57)):
            break
        name = name * uint64(_SHIFTED) + uint64(byte)
        place += 1
    inline, block = False, False
    for each in _INLINE:
        inline |= each == name
    for each in _BLOCK:
        block |= each == name
    if not (inline or block):
        return 0, False
    named, valued = place, False
    while place < min(end, at + _MOST_TAG) and data[place] != 62:
        if data[place] == 60:
            return 0, False
        valued |= data[place] == 61
        place += 1
    if place >= min(end, at + _MOST_TAG):
        return 0, False
    for index in range(named, place):
        # "<br />" has no value either.
        if not valued and data[index] != 32 and data[index] != 47:
            return 0, False
    return place + 1, block


@njit(nogil=True)
def _entity(data, at, end):  # type: ignore[no-untyped-def]
    """(end of the entity that starts at ``at``, its code point or 0 for a named one); the end is 0 for none."""
    place = at + 1
    most = min(end, at + _MOST_ENTITY)
    if place < most and data[place] == 35:
        place += 1
        hexadecimal = place < most and _lower(data[place]) == 120
        place += 1 if hexadecimal else 0
        first, code = place, 0
        while place < most and data[place] != 59:
            byte = np.int64(_lower(data[place]))
            if 48 <= byte <= 57:
                digit = byte - 48
            elif hexadecimal and 97 <= byte <= 102:
                digit = byte - 87
            else:
                return 0, 0
            code = code * (16 if hexadecimal else 10) + digit
            place += 1
        if place >= most or place == first or not 0 < code < 0x110000 or 0xD800 <= code < 0xE000:
            return 0, 0
        return place + 1, code
    while place < most and np.uint8(97) <= _lower(data[place]) <= np.uint8(122):
        place += 1
    if at + 2 < place < most and data[place] == 59:
        return place + 1, 0
    return 0, 0


@njit(nogil=True)
def _link(data, at, end):  # type: ignore[no-untyped-def]
    """The end of the address in a link of Markdown whose words end at ``at``, 0 for none."""
    if at + 1 >= end or data[at + 1] != 40:
        return 0
    for place in range(at + 2, min(end, at + _MOST_LINK)):
        if data[place] == 41:
            return place + 1
        if data[place] <= 32:
            return 0
    return 0


@njit(nogil=True)
def _any(data, start, end, table, bare, out, at):  # type: ignore[no-untyped-def]
    """Fold any text; returns where it ends in ``out``."""
    begin, place = at, start
    # Between two letters: the widest separator, and whether marks such as * stood there.
    gap, marks, stars, digit = SPACE - 1, False, 0, False
    while place < end:
        byte = data[place]
        code, size = _code_point(data, place)
        if byte == 42 or byte == 95 or byte == 96 or byte == 126:
            marks = True
            stars += byte == 42
            place += 1
            continue
        if byte == 60:
            after, breaks = _tag(data, place, end)
            if after:
                gap = LINE if breaks else gap
                place = after
                continue
        elif byte == 38:
            after, named = _entity(data, place, end)
            if after:
                if named == 0:
                    gap = max(gap, SPACE)
                    place = after
                    continue
                code, size = np.uint32(named), after - place
        elif byte == 93:
            after = _link(data, place, end)
            if after:
                gap = max(gap, SPACE)
                place = after
                continue
        place += size
        letter = table[code] if code < END else np.uint32(VANISH) if code >= MARKS else code
        if letter == VANISH:
            continue
        if letter <= LINE:
            gap = max(gap, np.int64(letter))
            continue
        # "wo**rd**" is one word, "2*3" are two.
        one = 48 <= letter < 58 or (letter == 108 and code == 49) or (letter == 111 and code == 48)
        if marks and (one or digit):
            gap = max(gap, SPACE)
        if bare and one and digit and stars == 1:
            out[at] = 42
            at += 1
        elif gap >= SPACE and at > begin and (not bare or (one and digit)):
            # For ``_words``, which puts a blank there.
            out[at] = gap
            at += 1
        gap, marks, stars, digit = SPACE - 1, False, 0, one
        at = _put(out, at, letter)
    return at


@njit(nogil=True)
def _alone(code):  # type: ignore[no-untyped-def]
    """Whether a character is a word: Han characters and kana."""
    if code < 0x3005:
        return False
    return (
        code <= 0x3007 or 0x3021 <= code <= 0x302F or 0x3040 <= code <= 0x30FA or 0x30FC <= code <= 0x31FF
        or 0x3400 <= code <= 0x9FFF or 0xF900 <= code <= 0xFAFF or code >= END
    )  # fmt: skip


@njit(nogil=True)
def _words(out, begin, end, words, breaks, count):  # type: ignore[no-untyped-def]
    """The words of a text as ``_any`` leaves it, and blanks between them; returns where they end."""
    word, eight, bits, within, gap = uint64(0), uint64(0), uint64(0), False, np.uint8(LINE)
    place = begin
    while place <= end:
        code, size = _code_point(out, place) if place < end else (np.uint32(SPACE), 1)
        separates, alone = code <= LINE, _alone(code)
        if (separates or alone) and within:
            words[count] = _mixed(word, eight) if bits else word
            count += 1
            word, eight, bits, within = uint64(0), uint64(0), uint64(0), False
        if separates:
            gap = max(gap, np.uint8(code))
            if place < end:
                out[place] = 32
        elif alone:
            words[count], breaks[count] = _mixed(uint64(0), uint64(code)), gap
            gap = np.uint8(0)
            count += 1
        else:
            if not within:
                breaks[count] = gap
                gap, within = np.uint8(0), True
            for index in range(size):
                eight |= uint64(out[place + index]) << bits
                bits += uint64(8)
                if bits == 64:
                    word, eight, bits = _mixed(word, eight), uint64(0), uint64(0)
        place += size
    return count


_FOUND = (types.int64[::1], types.uint8[::1], types.int64[::1], types.uint64[::1], types.uint8[::1])


@njit(types.Tuple(_FOUND)(types.int64[::1], BYTES, _TABLE, types.boolean), cache=True, nogil=True)
def folded(offsets, data, table, bare):  # type: ignore[no-untyped-def]
    count = len(offsets) - 1
    most = 0
    for row in range(count):
        most = max(most, offsets[row + 1] - offsets[row])
    letters = np.empty(most + SLACK, np.uint8)
    total = offsets[count] - offsets[0]
    # Some letters of two bytes are three as others: lower case, or without an accent.
    out = np.empty(total + total // 2 + SLACK, np.uint8)
    # A word is at least one byte with a separator, or three bytes of a Han character.
    words = np.empty((total + count) // 2 + 1, np.uint64)
    breaks = np.empty(len(words), np.uint8)
    ends, starts = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    at, some = 0, 0
    for row in range(count):
        start, end = offsets[row], offsets[row + 1]
        if bare:
            found, more = _ascii(data, start, end, True, letters, out, at, words, breaks, some)
        else:
            found, more = _ascii(data, start, end, False, letters, out, at, words, breaks, some)
        if found < 0:
            found = _any(data, start, end, table, bare, out, at)
            more = _words(out, at, found, words, breaks, some)
        at, some = found, more
        ends[row + 1], starts[row + 1] = at, some
    out[at : at + SLACK] = 32
    return ends, out[: at + SLACK], starts, words[:some], breaks[:some]
