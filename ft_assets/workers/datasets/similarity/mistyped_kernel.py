"""Kernels of ``mistyped``: the pieces of texts, the votes of shared pieces, and edit distances."""

import numpy as np
from numba import njit, types, uint64

from ft_assets.workers.datasets.similarity.hashing import BYTES, mix64

PIECE = 8
"""Letters of a piece, a byte each."""
PIECES = 128
"""About the most pieces of a text that are used: of a longer text every second piece, or every fourth and so on. Their
hashes decide which, so a copy uses the same ones."""
LEAST = 24
"""Texts of fewer letters are skipped: they have too few pieces, and two mistakes make another question."""
DISTANCE = 0.2
"""The most edits, as a share of the longer text. One letter in ten mistyped makes 0.10, with a deviation of 0.02."""
# A copy must have this share of the pieces that are an indexed text's own; two fifths are expected.
_SHARE, _FEWEST = 0.15, 3
# Only this many letters are compared, as the time grows with the square.
_COMPARED = 4096
_NEAR = 8192
_LONGS, _LETTERS = types.int64[::1], types.Array(types.uint32, 1, "C", readonly=True)
_HASHES, _INTS = (types.Array(kind, 1, "C", readonly=True) for kind in (types.uint64, types.int32))


@njit(types.int64(_LONGS, BYTES, _LONGS, types.uint32[::1]), cache=True, nogil=True)
def decode(offsets, data, starts, codes):  # type: ignore[no-untyped-def]
    """Write the code points of UTF-8 to ``codes``, and where each text's begin to ``starts``; returns their number."""
    count = 0
    for row in range(len(offsets) - 1):
        starts[row] = count
        for at in range(offsets[row], offsets[row + 1]):
            byte = np.uint32(data[at])
            if byte & 0xC0 == 0x80:
                codes[count - 1] = (codes[count - 1] << np.uint32(6)) | (byte & np.uint32(0x3F))
            else:
                # The bits of the first of 1, 2, 3 or 4 bytes.
                codes[count] = byte if byte < 0x80 else byte & np.uint32(0x1F if byte < 0xE0 else 0x0F)
                count += 1
    starts[len(offsets) - 1] = count
    return count


@njit(types.int64(_LONGS, _LETTERS, types.int64, _LONGS, types.uint64[::1]), cache=True, nogil=True)
def find_pieces(starts, letters, every, ends, found):  # type: ignore[no-untyped-def]
    """Write the hashes of one in ``every`` of each text's pieces, or of fewer, to ``found``, and where they begin to
    ``ends``; returns their number. A piece consists of its code points' lowest bytes, which differ within a script.
    """
    count = 0
    for row in range(len(starts) - 1):
        ends[row] = count
        packed, first, size = uint64(0), starts[row], starts[row + 1] - starts[row]
        if size < LEAST:
            continue
        of = every
        while size > of * PIECES:
            of *= 2
        mask = uint64(of - 1)
        for at in range(first, starts[row + 1]):
            packed = (packed << uint64(8)) | uint64(letters[at] & np.uint32(0xFF))
            hash_ = mix64(packed)
            # Without a branch, which the processor would guess wrong.
            found[count] = hash_
            count += (at - first >= PIECE - 1) & (hash_ & mask == 0)
    ends[len(starts) - 1] = count
    return count


@njit(
    types.void(_LONGS, _LONGS, types.uint64[::1], _INTS, types.uint64, _HASHES, _INTS, _INTS, _INTS, _INTS, _LONGS),
    cache=True,
    nogil=True,
)
def vote(  # type: ignore[no-untyped-def]
    starts, ends, pieces, buckets, shift, hashes, rows, sizes, totals, owns, likeliest
):  # fmt: skip
    """Set ``likeliest`` of each text to the indexed row that shares most pieces with it, -1 if it shares too few.

    Indexed rows have ``sizes`` letters, ``totals`` pieces that were looked at and ``owns`` that are indexed.
    """
    near = np.empty(_NEAR, np.int32)
    for text in range(len(ends) - 1):
        likeliest[text] = -1
        count, size = 0, starts[text + 1] - starts[text]
        for index in range(ends[text], ends[text + 1]):
            bucket = pieces[index] >> shift
            for place in range(buckets[bucket], buckets[bucket + uint64(1)]):
                if hashes[place] == pieces[index] and count < _NEAR:
                    near[count] = rows[place]
                    count += 1
        near[:count].sort()
        most, at, looked_at = _FEWEST - 1, 0, ends[text + 1] - ends[text]
        while at < count:
            row, votes = near[at], 0
            while at < count and near[at] == row:
                votes += 1
                at += 1
            # Of a text that is a little longer, half as many pieces may be used.
            needed = _SHARE * owns[row] * min(1.0, looked_at / totals[row])
            if votes > most and votes >= needed and abs(sizes[row] - size) <= DISTANCE * max(sizes[row], size):
                most, likeliest[text] = votes, row


@njit(types.float64[::1](_LONGS, _LETTERS, _LONGS, _LETTERS, types.float64[::1]), cache=True, nogil=True)
def find_distances(starts, letters, other_starts, others, limits):  # type: ignore[no-untyped-def]
    """Levenshtein's distance of each pair as a share of the longer text; 1 if it is more than its limit.

    Only the diagonal's neighbourhood is filled in (Ukkonen 1985, "Algorithms for approximate string matching").
    """
    found = np.ones(len(starts) - 1)
    row = np.empty(_COMPARED + 1, np.int64)
    for pair in range(len(found)):
        here, there = starts[pair], other_starts[pair]
        whole, other_whole = starts[pair + 1] - here, other_starts[pair + 1] - there
        if abs(whole - other_whole) > limits[pair] * max(whole, other_whole):
            continue
        size, other = min(whole, _COMPARED), min(other_whole, _COMPARED)
        limit = np.int64(limits[pair] * max(size, other))
        for column in range(other + 1):
            row[column] = min(column, limit + 1)
        least = np.int64(0)
        for line in range(1, size + 1):
            first = max(1, line - limit)
            diagonal, row[first - 1] = row[first - 1], line if first == 1 else limit + 1
            least = row[first - 1]
            for column in range(first, min(other, line + limit) + 1):
                above = row[column] if column < line + limit else limit + 1
                same = letters[here + line - 1] == others[there + column - 1]
                value = min(diagonal + (0 if same else 1), above + 1, row[column - 1] + 1)
                diagonal, row[column] = row[column], value
                least = min(least, value)
            if least > limit:
                break
        if least <= limit and row[other] <= limit:
            found[pair] = row[other] / max(size, other, 1)
    return found
