"""Exact Jaccard similarity of character 5-gram sets, and the pass that keeps the first of every near-duplicate.

A similar pair must also share its own wording, the characters that no common window covers. Otherwise the same phrases
about two subjects would be duplicates. And its answers, compared apart from the question, must be the same. Otherwise
two questions about one long passage would be duplicates.
"""

import numpy as np
from numba import njit, types

from ft_assets.workers.datasets.similarity.answers import same_answers
from ft_assets.workers.datasets.similarity.compiled import compiled
from ft_assets.workers.datasets.similarity.hashing import BYTES, longest
from ft_assets.workers.datasets.similarity.shingles import fill, shingle_keys, slot_of, tables
from ft_assets.workers.datasets.similarity.wording import both, find_own, mark_own

KEPT_IN_BUCKET = 32
"""The most rows of a bucket that later rows are compared with, so that time stays linear in the bucket's size."""
OWN_SHARE = 0.8
"""Share of the shingles beginning in one of the texts' own wording that must be in both."""

_INTS, _LONGS = types.int32[::1], types.int64[::1]


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
        slot = slot_of(keys[index], table, stamps, stamp)
        if stamps[slot] == stamp and marks[slot] != mark:
            marks[slot] = mark
            shared += 1
        else:
            spare -= 1
            if spare < 0:
                return 0.0
    return shared / (distinct + other - shared)


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


@compiled(_INTS(_LONGS, _INTS, _INTS, _INTS, types.int64))
def listed(buckets, heads, next_entries, entry_rows, before):  # type: ignore[no-untyped-def]
    """The rows already listed in ``buckets``, with repetitions; all are below ``before``."""
    seen = np.zeros(before, np.bool_)
    for bucket in buckets:
        entry = heads[bucket]
        while entry >= 0:
            seen[entry_rows[entry]] = True
            entry = next_entries[entry]
    return np.flatnonzero(seen).astype(np.int32)


@compiled(
    types.int64(
        _LONGS, BYTES, _LONGS, BYTES, _INTS, types.int64, _LONGS, _LONGS, types.float64, types.boolean,
        _INTS, types.uint8[::1], _INTS, _INTS, types.int64, _INTS, _INTS, _INTS, _INTS, types.float64[::1],
        types.uint16[::1], types.int64,
    )
)  # fmt: skip
def walk(  # type: ignore[no-untyped-def]
    offsets, data, answers, said, earlier, first, starts, buckets, threshold, linked,
    heads, filled, next_entries, entry_rows, entries, sizes, owns, parents, kin, similarities, texts, most,
):  # fmt: skip
    """Compare a batch of rows, in the order of their positions, with the rows listed in their buckets.

    Texts are those of the ``earlier`` rows (ascending), followed by those of the batch, whose rows are numbered from
    ``first``; their answers are in ``said``, see ``same_answers``. The buckets of batch row i are
    ``buckets[starts[i]:starts[i + 1]]``. Not ``linked``: a row that is near a kept one gets the first such row as its
    parent and is not listed; all others are kept and listed, and joined in ``kin`` with the rows from which only their
    answers differ. ``linked``: every row is listed and joined with all rows it is near to, whatever their answers; the
    root of a cluster is its first row. ``texts`` counts the texts with each window; windows in more than ``most`` are
    common wording. Returns the number of entries.
    """
    room, widest = longest(offsets) + 1, longest(starts)
    keys = np.empty(room, np.uint64)
    table, stamps, marks = tables(room)
    owners, own = np.zeros(len(table), np.int64), np.zeros(room, np.bool_)
    near, others = np.empty(widest * KEPT_IN_BUCKET, np.int32), np.empty(widest * KEPT_IN_BUCKET, np.int32)
    mark = 0
    for index in range(len(starts) - 1):
        row, stamp = first + index, index + 1
        text = len(earlier) + index
        count = shingle_keys(data, offsets[text], offsets[text + 1], keys)
        sizes[row] = fill(keys, count, table, stamps, stamp)
        find_own(keys, count, texts, most, own)
        owns[row] = mark_own(keys, count, own, table, stamps, stamp, owners, stamp)
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
                mine = both(keys, count, table, stamps, stamp, marks, mark - 1, owners, stamp)
                find_own(keys, count, texts, most, own)
                theirs = mark_own(keys, count, own, table, stamps, stamp, marks, mark)
                if max(mine / owns[row], theirs / owns[other]) < OWN_SHARE:
                    continue
            if not linked and not same_answers(answers, said, text, place):
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
