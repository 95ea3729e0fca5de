"""Whether two texts have the same answers, apart from typing mistakes."""

import numpy as np
from numba import njit

from ft_assets.workers.datasets.similarity.shingles import code_point, fill, shingle_keys, slot_of, tables

SHORT, LONG = 16, 64
"""Answers of fewer than SHORT letters are the same only if they are equal: one letter tells "cell A" from "cell B".
Those of fewer than LONG letters may have one mistake in MISTAKES letters. Longer ones must have ANSWER_SHARE of their
shingles in common, as texts that are 0.9 similar have with mistakes anywhere."""
MISTAKES = 12
ANSWER_SHARE = 0.75


@njit(nogil=True)
def same_answers(ends, data, one, two):  # type: ignore[no-untyped-def]
    """Whether two texts have the same answers, or one text has none. Each text has two answers, which may be empty:
    those of text i of n begin at ``ends[i]`` and ``ends[n + i]``."""
    texts, any_one, any_two, same = (len(ends) - 1) // 2, False, False, True
    for at in (0, texts):
        start, end, other, other_end = ends[at + one], ends[at + one + 1], ends[at + two], ends[at + two + 1]
        any_one |= end > start
        any_two |= other_end > other
        same = same and _same_answer(data, start, end, other, other_end)
    return same or not (any_one and any_two)


@njit(nogil=True)
def _same_answer(data, start, end, other, other_end):  # type: ignore[no-untyped-def]
    if end - start == other_end - other:
        at = 0
        while at < end - start and data[start + at] == data[other + at]:
            at += 1
        if at == end - start:
            return True
    # There are at most as many shingles as letters, and as letters as bytes.
    most = max(end - start, other_end - other)
    if most < SHORT:
        return False
    keys = np.empty(most + 1, np.uint64)
    if min(_letters(data, start, end), _letters(data, other, other_end)) < LONG:
        return _mistyped(data, start, end, other, other_end)
    share = min(_share(data, start, end, other, other_end, keys), _share(data, other, other_end, start, end, keys))
    return share >= ANSWER_SHARE


@njit(nogil=True)
def _letters(data, start, end):  # type: ignore[no-untyped-def]
    letters = 0
    for at in range(start, end):
        letters += data[at] & 0xC0 != 0x80
    return letters


@njit(nogil=True)
def _share(data, start, end, other, other_end, keys):  # type: ignore[no-untyped-def]
    """The share of a text's shingles that another text has."""
    count = shingle_keys(data, other, other_end, keys)
    table, stamps, _ = tables(count)
    fill(keys, count, table, stamps, 1)
    count, shared = shingle_keys(data, start, end, keys), 0
    for index in range(count):
        shared += stamps[slot_of(keys[index], table, stamps, 1)] == 1
    return shared / count


@njit(nogil=True)
def _mistyped(data, start, end, other, other_end):  # type: ignore[no-untyped-def]
    """Whether two answers differ by at most one mistake in MISTAKES letters; none in a digit, nor at the first or last
    letter, where a choice is named."""
    here, there = _code_points(data, start, end), _code_points(data, other, other_end)
    size, width = len(here), len(there)
    most = max(size, width) // MISTAKES
    if max(size, width) < SHORT or abs(size - width) > most or here[0] != there[0] or here[-1] != there[-1]:
        return False
    row = np.arange(width + 1)
    for line in range(1, size + 1):
        diagonal, row[0] = row[0], line
        for column in range(1, width + 1):
            one, two, above = here[line - 1], there[column - 1], row[column]
            # Digits are never typed in place of others, or left out.
            gone, new = 1 + LONG * _is_digit(one), 1 + LONG * _is_digit(two)
            changed = 0 if one == two else max(gone, new)
            row[column] = min(diagonal + changed, above + gone, row[column - 1] + new)
            diagonal = above
    return row[width] <= most


@njit(nogil=True)
def _is_digit(code):  # type: ignore[no-untyped-def]
    """Whether ``code`` may be a digit in a text of ``bare_texts``, which writes 0 and 1 as o and l."""
    return 48 <= code < 58 or code == 108 or code == 111


@njit(nogil=True)
def _code_points(data, start, end):  # type: ignore[no-untyped-def]
    codes, count, at = np.empty(end - start, np.int64), 0, start
    while at < end:
        codes[count], size = code_point(data, at)
        count += 1
        at += size
    return codes[:count]
