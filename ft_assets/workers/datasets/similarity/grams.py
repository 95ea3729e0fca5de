"""64-bit hashes of the sequences of 13 words in folded texts, and the table that they are looked up in."""

import numpy as np
from numba import njit, types, uint64

from ft_assets.workers.datasets.similarity.hashing import mix64
from ft_assets.workers.datasets.similarity.loads import prefetch

GRAM = 13
"""Words per gram (Brown et al. 2020, appendix C)."""
FEWEST = 3
"""Texts with fewer words have no gram: "Yes." and "Thank you" are in every test and give nothing away."""

# An odd number whose powers weight the words of a gram.
_BASE = np.uint64(0x9E3779B97F4A7C15)
_FULL = np.uint64(pow(0x9E3779B97F4A7C15, GRAM, 1 << 64))


@njit(nogil=True)
def _grams(words, start, end, grams):  # type: ignore[no-untyped-def]
    """Write the hashes of the grams of ``words[start:end]``, in order, to ``grams``; returns their number.

    A text of ``FEWEST`` to 12 words is one gram of all its words; a shorter one has none.
    """
    count = end - start
    if count < FEWEST:
        return 0
    sum_ = uint64(0)
    for index in range(min(count, GRAM)):
        sum_ = sum_ * _BASE + words[start + index]
    if count <= GRAM:
        grams[0] = mix64(sum_ + uint64(count))
        return 1
    grams[0] = mix64(sum_ + uint64(GRAM))
    for index in range(GRAM, count):
        sum_ = sum_ * _BASE + words[start + index] - words[start + index - GRAM] * _FULL
        grams[index - GRAM + 1] = mix64(sum_ + uint64(GRAM))
    return count - GRAM + 1


# Number of grams between the prefetch of a memory address and its use.
_AHEAD = 24
_WORDS = types.Array(types.uint64, 1, "C", readonly=True)
_SOURCES = types.Array(types.int16, 1, "C", readonly=True)


@njit(nogil=True)
def _longest(starts):  # type: ignore[no-untyped-def]
    longest = 0
    for row in range(len(starts) - 1):
        longest = max(longest, starts[row + 1] - starts[row])
    return longest


@njit(types.uint64[::1](types.int64[::1], types.uint64[::1]), cache=True, nogil=True)
def all_grams(starts, words):  # type: ignore[no-untyped-def]
    grams = np.empty(_longest(starts) + 1, np.uint64)
    found = np.empty(max(len(words), 1), np.uint64)
    total = 0
    for row in range(len(starts) - 1):
        count = _grams(words, starts[row], starts[row + 1], grams)
        for index in range(count):
            found[total] = grams[index]
            total += 1
    return found[:total].copy()


@njit(inline="always")
def _two_bits(key):  # type: ignore[no-untyped-def]
    """A gram's bits in its word of the filter, from the twelve bits of its hash that are not used as an address."""
    return (uint64(1) << (key >> uint64(58))) | (uint64(1) << ((key >> uint64(52)) & uint64(63)))


@njit(types.int64(_WORDS, types.int64, types.uint64[::1], types.int16[::1], types.uint64[::1]), cache=True, nogil=True)
def insert(grams, source, keys, sources, bits):  # type: ignore[no-untyped-def]
    """Enter ``grams`` for ``source`` unless an earlier source has them; returns how many are new."""
    mask, word_mask, new = uint64(len(keys) - 1), uint64(len(bits) - 1), 0
    for index in range(len(grams)):
        if index + _AHEAD < len(grams):
            prefetch(keys, np.int64(grams[index + _AHEAD] & mask))
        key = max(grams[index], uint64(1))
        slot = key & mask
        while keys[slot] != 0 and keys[slot] != key:
            slot = (slot + uint64(1)) & mask
        if keys[slot] == 0:
            keys[slot], sources[slot] = key, source
            new += 1
            bits[(key >> uint64(30)) & word_mask] |= _two_bits(key)
    return new


@njit(
    types.void(
        types.int64[::1], types.uint64[::1], _WORDS, _SOURCES, _WORDS, types.int64, types.int64,
        types.uint32[::1], types.uint32[::1], types.int16[::1],
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def count_overlap(starts, words, keys, sources, bits, known, common, counts, hits, most):  # type: ignore[no-untyped-def]
    grams = np.empty(_longest(starts) + 1, np.uint64)
    mask, word_mask = uint64(len(keys) - 1), uint64(len(bits) - 1)
    tally = np.zeros(known, np.int64)
    for row in range(len(starts) - 1):
        count = _grams(words, starts[row], starts[row + 1], grams)
        found, ignored = 0, 0
        for index in range(count):
            key = max(grams[index], uint64(1))
            if index + _AHEAD < count:
                prefetch(bits, np.int64((grams[index + _AHEAD] >> uint64(30)) & word_mask))
            both = _two_bits(key)
            if bits[(key >> uint64(30)) & word_mask] & both != both:
                continue
            slot = key & mask
            while keys[slot] != 0 and keys[slot] != key:
                slot = (slot + uint64(1)) & mask
            if keys[slot] == key and sources[slot] == common:
                ignored += 1
            elif keys[slot] == key:
                tally[sources[slot]] += 1
                found += 1
        counts[row], hits[row], most[row] = count - ignored, found, -1
        if found:
            most[row] = np.argmax(tally)
            tally[:] = 0
