"""Exact Jaccard similarity of character 5-gram sets, and the pass that keeps the first of every near-duplicate.

A pair that is similar must also share what is its own, the characters that no common window covers. Otherwise the same
wording about two subjects would be a duplicate. And its answers must be the same, compared apart from what was asked:
otherwise two questions about one long passage would be.

A shingle's key holds its five code points if all are below 4096 (Latin, Greek, Cyrillic, Hebrew, Arabic), else a 63-bit
hash of them. Two of the 1,000 shingles of a pair of texts share a hash with a probability below 1e-13.
"""

import numpy as np
from numba import njit, types, uint64

from ft_assets.workers.datasets.similarity.hashing import BYTES, SHINGLE, mix64

KEPT_IN_BUCKET = 32
"""The most rows of a bucket that later rows are compared with, so that time stays linear in the bucket's size."""

WINDOW = 12
"""Characters of a window. Many texts of a language share any five characters, but twelve only by common wording."""
SLOTS = 1 << 23
"""Counters of the texts that a window is in. Windows with the same counter count as the more frequent of them."""
OWN_RUN = 3
"""So many characters in a row without a common window are a text's own. A letter mistyped in common wording is one
character, and nobody's own."""
OWN_SHARE = 0.8
"""Of the shingles that begin in what the one or the other text has of its own, this share must be in both."""

SHORT, LONG = 16, 64
"""Answers of fewer letters than SHORT are the same only if they are equal: one letter tells "cell A" from "cell B".
Those of fewer than LONG may have a mistake in MISTAKES letters. Of longer ones ANSWER_SHARE of the shingles of each
must be in the other, as in texts that are 0.9 alike with their mistakes anywhere."""
MISTAKES = 12
ANSWER_SHARE = 0.75

_LOW = np.uint64(0xFFFFFFFFFFFF)
_BIG = np.int64(4096)


@njit(nogil=True)
def _code_point(data, at):  # type: ignore[no-untyped-def]
    """The code point at ``at`` of valid UTF-8, and its number of bytes."""
    lead = np.int64(data[at])
    if lead < 0x80:
        return lead, 1
    if lead < 0xE0:
        return ((lead & 0x1F) << 6) | (data[at + 1] & 0x3F), 2
    if lead < 0xF0:
        return ((lead & 0x0F) << 12) | ((data[at + 1] & 0x3F) << 6) | (data[at + 2] & 0x3F), 3
    tail = ((data[at + 1] & 0x3F) << 12) | ((data[at + 2] & 0x3F) << 6) | (data[at + 3] & 0x3F)
    return ((lead & 0x07) << 18) | tail, 4


@njit(nogil=True)
def shingle_keys(data, start, end, keys):  # type: ignore[no-untyped-def]
    """Write the keys of a text's shingles, in order, to ``keys`` (size: the text's bytes + 1); returns their number."""
    at, letters, count = start, 0, 0
    packed, hashed, big = uint64(0), uint64(0), -SHINGLE
    last = np.zeros(SHINGLE, np.int64)
    while at < end:
        code, size = _code_point(data, at)
        at += size
        last[letters % SHINGLE] = code
        if code >= _BIG:
            big = letters
        packed = ((packed & _LOW) << uint64(12)) | uint64(code & (_BIG - 1))
        letters += 1
        if letters >= SHINGLE:
            if letters - 1 - big < SHINGLE:
                hashed = uint64(0)
                for back in range(SHINGLE):
                    hashed = mix64(hashed + uint64(last[(letters + back) % SHINGLE]) + uint64(1))
                keys[count] = hashed | uint64(1 << 63)
            else:
                keys[count] = packed
            count += 1
    if 0 < letters < SHINGLE:
        hashed = uint64(letters)
        for index in range(letters):
            hashed = mix64(hashed + uint64(last[index]) + uint64(1))
        # No five packed code points reach these bits: a short text matches only an equal text.
        keys[0] = (hashed | uint64(1 << 63)) if big >= 0 else (packed | (uint64(letters) << uint64(60)))
        count = 1
    return count


@njit(nogil=True)
def _slot(key, size):  # type: ignore[no-untyped-def]
    """Where a key is counted, or looked for first, in a table whose size is a power of two."""
    return ((key * uint64(0x9E3779B97F4A7C15)) >> uint64(32)) & uint64(size - 1)


@njit(nogil=True)
def _place(key, table, stamps, stamp):  # type: ignore[no-untyped-def]
    """Where ``key`` is in the open-addressing ``table`` under ``stamp``, or would be put."""
    mask, slot = uint64(len(table) - 1), _slot(key, len(table))
    while stamps[slot] == stamp and table[slot] != key:
        slot = (slot + uint64(1)) & mask
    return slot


@njit(nogil=True)
def _fill(keys, count, table, stamps, stamp):  # type: ignore[no-untyped-def]
    """Put ``keys[:count]`` into the ``table`` under ``stamp``; returns how many are distinct."""
    distinct = 0
    for index in range(count):
        slot = _place(keys[index], table, stamps, stamp)
        if stamps[slot] != stamp:
            stamps[slot], table[slot] = stamp, keys[index]
            distinct += 1
    return distinct


@njit(nogil=True)
def _window(keys, at, slots):  # type: ignore[no-untyped-def]
    """The counter of the window that begins with the shingle ``at``: three shingles hold all of its characters."""
    hashed = mix64(keys[at] + mix64(keys[at + SHINGLE] + mix64(keys[at + WINDOW - SHINGLE])))
    return hashed & uint64(slots - 1)


@njit(nogil=True)
def _find_own(keys, count, texts, most, own):  # type: ignore[no-untyped-def]
    """Set ``own[:count]`` for shingles that begin in a run of characters without a common window, which more than
    ``most`` of the counted texts have."""
    covered, run = 0, 0
    for index in range(count):
        if index + WINDOW - SHINGLE < count and texts[_window(keys, index, len(texts))] > most:
            covered = index + WINDOW
        run = 0 if index < covered else run + 1
        own[index] = run > 0
        if run == 0 and index > 0 and own[index - 1]:
            _drop_short(own, index)
    if count > 0 and own[count - 1]:
        _drop_short(own, count)


@njit(nogil=True)
def _drop_short(own, end):  # type: ignore[no-untyped-def]
    """Clear the run that ends before ``end`` if it is shorter than OWN_RUN."""
    start = end
    while start > 0 and own[start - 1]:
        start -= 1
    if end - start < OWN_RUN:
        own[start:end] = False


@njit(nogil=True)
def _mark_own(keys, count, own, table, stamps, stamp, marks, mark):  # type: ignore[no-untyped-def]
    """Mark those of ``keys[:count]`` that are ``own`` and in the table; returns how many are distinct."""
    distinct = 0
    for index in range(count):
        if not own[index]:
            continue
        slot = _place(keys[index], table, stamps, stamp)
        if stamps[slot] == stamp and marks[slot] != mark:
            marks[slot] = mark
            distinct += 1
    return distinct


@njit(nogil=True)
def _both(keys, count, table, stamps, stamp, marks, mark, owners, row):  # type: ignore[no-untyped-def]
    """How many distinct ones of ``keys[:count]`` are the own ones of the text in the table."""
    shared = 0
    for index in range(count):
        slot = _place(keys[index], table, stamps, stamp)
        if stamps[slot] == stamp and owners[slot] == row and marks[slot] != mark:
            marks[slot] = mark
            shared += 1
    return shared


@njit(types.void(types.int64[::1], BYTES, types.uint16[::1]), cache=True, nogil=True)
def count_texts(offsets, data, texts):  # type: ignore[no-untyped-def]
    """Add to ``texts`` (SLOTS counters) in how many of these texts each window is; at most 65,535 in all."""
    longest = 0
    for row in range(len(offsets) - 1):
        longest = max(longest, offsets[row + 1] - offsets[row])
    keys = np.empty(longest + 1, np.uint64)
    last = np.full(len(texts), -1, np.int32)
    for row in range(len(offsets) - 1):
        count = shingle_keys(data, offsets[row], offsets[row + 1], keys)
        for index in range(count - WINDOW + SHINGLE):
            slot = _window(keys, index, len(texts))
            if last[slot] != row:
                last[slot] = row
                texts[slot] += np.uint16(1)


@njit(nogil=True)
def _similarity(keys, count, distinct, other, table, stamps, stamp, marks, mark, threshold):  # type: ignore[no-untyped-def]
    """Jaccard similarity of ``keys[:count]`` (``distinct`` of them) with the ``other`` distinct keys in ``table``.

    0 as soon as it is certain to be below ``threshold``: |A n B| >= t / (1 + t) * (|A| + |B|) must stay possible.
    """
    needed = np.int64(np.ceil(threshold / (1 + threshold) * (distinct + other) - 1e-6))
    if needed > min(distinct, other):
        return 0.0
    shared, spare = 0, count - needed
    for index in range(count):
        slot = _place(keys[index], table, stamps, stamp)
        if stamps[slot] == stamp and marks[slot] != mark:
            marks[slot] = mark
            shared += 1
        else:
            spare -= 1
            if spare < 0:
                return 0.0
    return shared / (distinct + other - shared)


@njit(nogil=True)
def _tables(room):  # type: ignore[no-untyped-def]
    size = 64
    while size < 2 * room:
        size *= 2
    return np.empty(size, np.uint64), np.zeros(size, np.int64), np.zeros(size, np.int64)


@njit(nogil=True)
def _root(parents, row):  # type: ignore[no-untyped-def]
    while parents[row] != row:
        parents[row] = parents[parents[row]]
        row = parents[row]
    return row


@njit(nogil=True)
def _join(parents, one, two):  # type: ignore[no-untyped-def]
    one, two = _root(parents, one), _root(parents, two)
    parents[max(one, two)] = min(one, two)


@njit(nogil=True)
def _same_answers(ends, data, one, two):  # type: ignore[no-untyped-def]
    """Whether two texts have the same answers, or one of them has none. A text has two, of which one or both may be
    empty: text i's begin at ``ends[i]`` and, of n texts, at ``ends[n + i]``."""
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
    # Letters are at most as many as bytes, and a shingle begins with each but the last four.
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
    table, stamps, _ = _tables(count)
    _fill(keys, count, table, stamps, 1)
    count, shared = shingle_keys(data, start, end, keys), 0
    for index in range(count):
        shared += stamps[_place(keys[index], table, stamps, 1)] == 1
    return shared / count


@njit(nogil=True)
def _mistyped(data, start, end, other, other_end):  # type: ignore[no-untyped-def]
    """Whether two answers differ by mistakes in one of MISTAKES letters at most, none in a digit or at an end, where a
    choice is named."""
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
    """Whether it is a digit in a text of ``bare_texts``, which has no 0 and 1 apart from o and l."""
    return 48 <= code < 58 or code == 108 or code == 111


@njit(nogil=True)
def _code_points(data, start, end):  # type: ignore[no-untyped-def]
    codes, count, at = np.empty(end - start, np.int64), 0, start
    while at < end:
        codes[count], size = _code_point(data, at)
        count += 1
        at += size
    return codes[:count]


_INTS, _LONGS = types.int32[::1], types.int64[::1]


@njit(_INTS(_LONGS, _INTS, _INTS, _INTS, types.int64), cache=True, nogil=True)
def listed(buckets, heads, next_entries, entry_rows, before):  # type: ignore[no-untyped-def]
    """The rows already listed in ``buckets``, with repetitions; all are below ``before``."""
    seen = np.zeros(before, np.bool_)
    for bucket in buckets:
        entry = heads[bucket]
        while entry >= 0:
            seen[entry_rows[entry]] = True
            entry = next_entries[entry]
    return np.flatnonzero(seen).astype(np.int32)


@njit(
    types.int64(
        _LONGS, BYTES, _LONGS, BYTES, _INTS, types.int64, _LONGS, _LONGS, types.float64, types.boolean,
        _INTS, types.uint8[::1], _INTS, _INTS, types.int64, _INTS, _INTS, _INTS, _INTS, types.float64[::1],
        types.uint16[::1], types.int64,
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def walk(  # type: ignore[no-untyped-def]
    offsets, data, answers, said, earlier, first, starts, buckets, threshold, linked,
    heads, filled, next_entries, entry_rows, entries, sizes, owns, parents, kin, similarities, texts, most,
):  # fmt: skip
    """Compare a batch of rows, in the order of their positions, with the rows listed in their buckets.

    Texts are those of the ``earlier`` rows (ascending), followed by those of the batch, whose rows are numbered from
    ``first``; their answers are in ``said``, see ``_same_answers``. The buckets of batch row i are
    ``buckets[starts[i]:starts[i + 1]]``. Not ``linked``: a row that is near a kept one gets the first such row as its
    parent and is not listed; all others are kept and listed, and joined in ``kin`` with the rows that they are near but
    for their answers. ``linked``: every row is listed and joined with all rows it is near to, whatever their answers;
    the root of a cluster is its first row. ``texts`` counts the texts with each window; those in more than ``most`` are
    common wording. Returns the number of entries.
    """
    longest = 0
    for row in range(len(offsets) - 1):
        longest = max(longest, offsets[row + 1] - offsets[row])
    keys = np.empty(longest + 1, np.uint64)
    table, stamps, marks = _tables(longest + 1)
    owners, own = np.zeros(len(table), np.int64), np.zeros(longest + 1, np.bool_)
    widest = 0
    for index in range(len(starts) - 1):
        widest = max(widest, starts[index + 1] - starts[index])
    near, others = np.empty(widest * KEPT_IN_BUCKET, np.int32), np.empty(widest * KEPT_IN_BUCKET, np.int32)
    mark = 0
    for index in range(len(starts) - 1):
        row, stamp = first + index, index + 1
        text = len(earlier) + index
        count = shingle_keys(data, offsets[text], offsets[text + 1], keys)
        sizes[row] = _fill(keys, count, table, stamps, stamp)
        _find_own(keys, count, texts, most, own)
        owns[row] = _mark_own(keys, count, own, table, stamps, stamp, owners, stamp)
        parents[row] = kin[row] = row
        if count == 0:
            continue
        candidates = 0
        for bucket in buckets[starts[index] : starts[index + 1]]:
            entry = heads[bucket]
            while entry >= 0:
                near[candidates] = entry_rows[entry]
                candidates += 1
                entry = next_entries[entry]
        chosen = np.sort(near[:candidates])
        before, otherwise = np.int32(-1), 0
        for other in chosen:
            if other == before:
                continue
            before = other
            if linked and _root(parents, other) == _root(parents, row):
                continue
            place = len(earlier) + other - first if other >= first else np.searchsorted(earlier, other)
            mark += 1
            count = shingle_keys(data, offsets[place], offsets[place + 1], keys)
            similarity = _similarity(
                keys, count, sizes[other], sizes[row], table, stamps, stamp, marks, mark, threshold
            )
            if similarity < threshold or similarity == 0:
                continue
            worded = owns[row] < sizes[row] or owns[other] < sizes[other]
            if worded and min(owns[row], owns[other]) > 0:
                mark += 2
                mine = _both(keys, count, table, stamps, stamp, marks, mark - 1, owners, stamp)
                _find_own(keys, count, texts, most, own)
                theirs = _mark_own(keys, count, own, table, stamps, stamp, marks, mark)
                if max(mine / owns[row], theirs / owns[other]) < OWN_SHARE:
                    continue
            if not linked and not _same_answers(answers, said, text, place):
                others[otherwise] = other
                otherwise += 1
                continue
            similarities[row] = max(similarities[row], similarity)
            if not linked:
                parents[row] = other
                break
            _join(parents, other, row)
        if parents[row] == row:
            for other in others[:otherwise]:
                _join(kin, other, row)
        if linked or parents[row] == row:
            for bucket in buckets[starts[index] : starts[index + 1]]:
                if filled[bucket] < KEPT_IN_BUCKET:
                    filled[bucket] += 1
                    next_entries[entries], entry_rows[entries] = heads[bucket], row
                    heads[bucket] = entries
                    entries += 1
    return entries
