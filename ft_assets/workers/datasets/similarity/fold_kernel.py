"""The kernel of ``folded``: any text, letter by letter, and the words in it."""

import numpy as np
from numba import njit, types, uint64

from ft_assets.workers.datasets.similarity.ascii_kernel import SLACK, fold_ascii, mixed
from ft_assets.workers.datasets.similarity.compiled import compiled
from ft_assets.workers.datasets.similarity.folding import END, LINE, MARKS, SEVERAL, SPACE, VANISH
from ft_assets.workers.datasets.similarity.hashing import BYTES, longest
from ft_assets.workers.datasets.similarity.markup_kernel import entity, link, tag

_TABLE = types.Array(types.uint32, 1, "C", readonly=True)


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
def _any(data, start, end, table, bare, out, at):  # type: ignore[no-untyped-def]
    """Fold any text; returns where it ends in ``out``."""
    begin, place = at, start
    # Since the last letter: the widest separator, and whether there were marks such as *.
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
            after, breaks = tag(data, place, end)
            if after:
                gap = LINE if breaks else gap
                place = after
                continue
        elif byte == 38:
            after, named = entity(data, place, end)
            if after:
                if named == 0:
                    gap = max(gap, SPACE)
                    place = after
                    continue
                code, size = np.uint32(named), after - place
        elif byte == 93:
            after = link(data, place, end)
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
            words[count] = mixed(word, eight) if bits else word
            count += 1
            word, eight, bits, within = uint64(0), uint64(0), uint64(0), False
        if separates:
            gap = max(gap, np.uint8(code))
            if place < end:
                out[place] = 32
        elif alone:
            words[count], breaks[count] = mixed(uint64(0), uint64(code)), gap
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
                    word, eight, bits = mixed(word, eight), uint64(0), uint64(0)
        place += size
    return count


_FOUND = (types.int64[::1], types.uint8[::1], types.int64[::1], types.uint64[::1], types.uint8[::1])


@compiled(types.Tuple(_FOUND)(types.int64[::1], BYTES, _TABLE, types.boolean))
def fold(offsets, data, table, bare):  # type: ignore[no-untyped-def]
    """The arrays of ``folded.Folded`` for the texts at ``offsets``; ``bare``: as ``folded.bare_texts``."""
    count = len(offsets) - 1
    letters = np.empty(longest(offsets) + SLACK, np.uint8)
    total = offsets[count] - offsets[0]
    # Some letters of two bytes become three: in lower case, or without an accent.
    out = np.empty(total + total // 2 + SLACK, np.uint8)
    # A word is at least one byte with a separator, or three bytes of a Han character.
    words = np.empty((total + count) // 2 + 1, np.uint64)
    breaks = np.empty(len(words), np.uint8)
    ends, starts = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    at, some = 0, 0
    for row in range(count):
        start, end = offsets[row], offsets[row + 1]
        if bare:
            found, more = fold_ascii(data, start, end, True, letters, out, at, words, breaks, some)
        else:
            found, more = fold_ascii(data, start, end, False, letters, out, at, words, breaks, some)
        if found < 0:
            found = _any(data, start, end, table, bare, out, at)
            more = _words(out, at, found, words, breaks, some)
        at, some = found, more
        ends[row + 1], starts[row + 1] = at, some
    out[at : at + SLACK] = 32
    return ends, out[: at + SLACK], starts, words[:some], breaks[:some]
