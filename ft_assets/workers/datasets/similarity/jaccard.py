"""Exact Jaccard similarity of character 5-gram sets, and the pass that keeps the first of every near-duplicate.

A shingle's key holds its five code points if all are below 4096 (Latin, Greek, Cyrillic, Hebrew, Arabic), else a 63-bit
hash of them. Two of the 1,000 shingles of a pair of texts share a hash with a probability below 1e-13.
"""

import numpy as np
from numba import njit, types, uint64

from ft_assets.workers.datasets.similarity.hashing import BYTES, SHINGLE, mix64

KEPT_IN_BUCKET = 16
"""The most rows of a bucket that later rows are compared with, so that time stays linear in the bucket's size."""

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
def _fill(keys, count, table, stamps, stamp):  # type: ignore[no-untyped-def]
    """Put ``keys[:count]`` into the open-addressing ``table`` under ``stamp``; returns how many are distinct."""
    mask, distinct = uint64(len(table) - 1), 0
    for index in range(count):
        key = keys[index]
        slot = (key * uint64(0x9E3779B97F4A7C15)) >> uint64(32) & mask
        while stamps[slot] == stamp and table[slot] != key:
            slot = (slot + uint64(1)) & mask
        if stamps[slot] != stamp:
            stamps[slot], table[slot] = stamp, key
            distinct += 1
    return distinct


@njit(nogil=True)
def _similarity(keys, count, distinct, other, table, stamps, stamp, marks, mark, threshold):  # type: ignore[no-untyped-def]
    """Jaccard similarity of ``keys[:count]`` (``distinct`` of them) with the ``other`` distinct keys in ``table``.

    0 as soon as it is certain to be below ``threshold``: |A n B| >= t / (1 + t) * (|A| + |B|) must stay possible.
    """
    needed = np.int64(np.ceil(threshold / (1 + threshold) * (distinct + other) - 1e-6))
    if needed > min(distinct, other):
        return 0.0
    mask, shared, spare = uint64(len(table) - 1), 0, count - needed
    for index in range(count):
        key = keys[index]
        slot = (key * uint64(0x9E3779B97F4A7C15)) >> uint64(32) & mask
        while stamps[slot] == stamp and table[slot] != key:
            slot = (slot + uint64(1)) & mask
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
        _LONGS, BYTES, _INTS, types.int64, _LONGS, _LONGS, types.float64, types.boolean,
        _INTS, types.uint8[::1], _INTS, _INTS, types.int64, _INTS, _INTS, types.float64[::1],
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def walk(  # type: ignore[no-untyped-def]
    offsets, data, earlier, first, starts, buckets, threshold, linked,
    heads, filled, next_entries, entry_rows, entries, sizes, parents, similarities,
):  # fmt: skip
    """Compare a batch of rows, in the order of their positions, with the rows listed in their buckets.

    Texts are those of the ``earlier`` rows (ascending), followed by those of the batch, whose rows are numbered from
    ``first``. The buckets of batch row i are ``buckets[starts[i]:starts[i + 1]]``. Not ``linked``: a row that is near a
    kept one gets the first such row as its parent and is not listed; all others are kept and listed. ``linked``: every
    row is listed and joined with all rows it is near to; the root of a cluster is its first row. Returns the number of
    entries.
    """
    longest = 0
    for row in range(len(offsets) - 1):
        longest = max(longest, offsets[row + 1] - offsets[row])
    keys = np.empty(longest + 1, np.uint64)
    table, stamps, marks = _tables(longest + 1)
    most = 0
    for index in range(len(starts) - 1):
        most = max(most, starts[index + 1] - starts[index])
    near = np.empty(most * KEPT_IN_BUCKET, np.int32)
    mark = 0
    for index in range(len(starts) - 1):
        row, stamp = first + index, index + 1
        text = len(earlier) + index
        count = shingle_keys(data, offsets[text], offsets[text + 1], keys)
        sizes[row] = _fill(keys, count, table, stamps, stamp)
        parents[row] = row
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
        before = np.int32(-1)
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
            similarities[row] = max(similarities[row], similarity)
            if not linked:
                parents[row] = other
                break
            one, two = _root(parents, other), _root(parents, row)
            parents[max(one, two)] = min(one, two)
        if linked or parents[row] == row:
            for bucket in buckets[starts[index] : starts[index + 1]]:
                if filled[bucket] < KEPT_IN_BUCKET:
                    filled[bucket] += 1
                    next_entries[entries], entry_rows[entries] = heads[bucket], row
                    heads[bucket] = entries
                    entries += 1
    return entries
