"""numba kernel that finds truncated answers. Imported by workers only."""

import numpy as np
from numba import njit, uint64

from ft_assets.workers.datasets.quality.scan import is_space

# Why an answer counts as truncated.
FENCE, JSON, PUNCTUATION, WORD = 1, 2, 3, 4
# An answer of fewer words is a label, a title or a number, and may end in any way.
LEAST_WORDS = 8

_BACKTICK, _QUOTE, _BACKSLASH = 0x60, 0x22, 0x5C
_OPEN, _CLOSE = (0x7B, 0x5B), (0x7D, 0x5D)  # braces and brackets
_LONGEST_WORD = 8

# English words that do not end a sentence; a word fits into an 8-byte number.
_UNFINISHED = (
    "an and the or but nor of because if than whose my your its our their every into onto upon from with "
    "and/or e.g. i.e. such whether although unless while"
)


def _packed(word: str) -> int:
    return int.from_bytes(word.encode(), "big")


UNFINISHED = np.sort(np.array([_packed(word) for word in _UNFINISHED.split() if len(word) <= 8], np.uint64))


@njit(cache=True, nogil=True)
def find_breaks(offsets, data, unfinished, breaks):  # type: ignore[no-untyped-def]
    """``breaks`` uint8 [n]: why each answer counts as truncated, 0 if it does not.

    A code fence that is not closed; an answer that starts as JSON whose brackets are not closed; an answer of at least
    LEAST_WORDS words that ends with a comma, an opening bracket, or one of the words ``unfinished`` (sorted, as
    UNFINISHED).
    """
    for text in range(len(offsets) - 1):
        start, end = offsets[text], offsets[text + 1]
        while end > start and is_space(data[end - 1]):
            end -= 1
        while start < end and is_space(data[start]):
            start += 1
        breaks[text] = 0
        if start == end:
            continue
        if _has_open_fence(data, start, end):
            breaks[text] = FENCE
        elif _is_open_json(data, start, end):
            breaks[text] = JSON
        else:
            how = _open_end(data, start, end, unfinished)
            if how and _has_words(data, start, end):
                breaks[text] = how


@njit(cache=True, nogil=True)
def _has_open_fence(data, start, end):  # type: ignore[no-untyped-def]
    """Whether an odd number of lines start with three backticks."""
    ticks = 0
    for byte in data[start:end]:
        ticks += byte == _BACKTICK
    is_open = False
    at = start if ticks >= 3 else end
    while at + 2 < end:
        if data[at] != _BACKTICK:
            at += 1
            continue
        fence = data[at + 1] == _BACKTICK and data[at + 2] == _BACKTICK
        before = at - 1
        while before >= start and data[before] != 10 and is_space(data[before]):
            before -= 1
        if fence and (before < start or data[before] == 10):
            is_open = not is_open
        while at < end and data[at] == _BACKTICK:
            at += 1
    return is_open


@njit(cache=True, nogil=True)
def _is_open_json(data, start, end):  # type: ignore[no-untyped-def]
    if data[start] != _OPEN[0] and data[start] != _OPEN[1]:
        return False
    first = start + 1
    while first < end and is_space(data[first]):
        first += 1
    # What may follow an opening bracket in non-empty JSON; "[Verse 1]" is not JSON.
    if first == end or not (
        data[first] == _QUOTE or data[first] == _OPEN[0] or data[first] == _OPEN[1] or 48 <= data[first] <= 57
    ):
        return False
    depth = 0
    quoted = False
    at = start
    while at < end:
        byte = data[at]
        if quoted:
            if byte == _BACKSLASH:
                at += 1
            elif byte == _QUOTE:
                quoted = False
        elif byte == _QUOTE:
            quoted = True
        elif byte == _OPEN[0] or byte == _OPEN[1]:
            depth += 1
        elif byte == _CLOSE[0] or byte == _CLOSE[1]:
            depth -= 1
        at += 1
    return depth > 0


@njit(cache=True, nogil=True)
def _has_words(data, start, end):  # type: ignore[no-untyped-def]
    words = 0
    inside = False
    for at in range(start, end):
        if is_space(data[at]):
            inside = False
        elif not inside:
            inside = True
            words += 1
            if words == LEAST_WORDS:
                return True
    return False


@njit(cache=True, nogil=True)
def _open_end(data, start, end, unfinished):  # type: ignore[no-untyped-def]
    last = data[end - 1]
    if last == 0x2C or last == 0x28 or last == _OPEN[0] or last == _OPEN[1]:
        return PUNCTUATION
    begin = end
    packed = uint64(0)
    while begin > start and not is_space(data[begin - 1]):
        begin -= 1
        if end - begin > _LONGEST_WORD:
            return 0
    for at in range(begin, end):
        packed = (packed << uint64(8)) | uint64(data[at])
    place = np.searchsorted(unfinished, packed)
    return WORD if place < len(unfinished) and unfinished[place] == packed else 0
