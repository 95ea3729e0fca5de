"""Words of a text, and 64-bit hashes of the sequences of 13 of them, straight from UTF-8.

A word is a run of letters and digits, in lower case. Everything else only separates, so texts that differ only in case,
punctuation or spacing are equal. Han characters and kana, which are written without spaces, are a word each. Runs of
Thai, Lao, Khmer and Burmese, also without spaces, stay one word each: only overlaps of whole passages are found.
"""

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types, uint64
from numba.extending import intrinsic

from ft_assets.workers.datasets.similarity.hashing import BYTES, mix64

GRAM = 13
"""Words per gram (Brown et al. 2020, appendix C)."""
FEWEST = 3
"""Texts with fewer words have no gram: "Yes." and "Thank you" are in every test and give nothing away."""

# Separators beyond ASCII: Latin-1 signs, general punctuation to mathematical and other symbols, CJK punctuation,
# presentation forms of punctuation, full-width ASCII punctuation, the byte order mark and specials.
_SEPARATORS = (
    (0x80, 0xA9), (0xAB, 0xB1), (0xB4, 0xB4), (0xB6, 0xB8), (0xBB, 0xBF), (0xD7, 0xD7), (0xF7, 0xF7),
    (0x37E, 0x37E), (0x387, 0x387), (0x55A, 0x55F), (0x589, 0x58A), (0x5BE, 0x5BE), (0x5F3, 0x5F4),
    (0x60C, 0x60D), (0x61B, 0x61F), (0x66A, 0x66D), (0x6D4, 0x6D4), (0x964, 0x965), (0x1680, 0x1680),
    (0x2000, 0x206F), (0x20A0, 0x20CF), (0x2190, 0x245F), (0x2500, 0x2BFF), (0x2E00, 0x2E7F), (0x3000, 0x3004),
    (0x3008, 0x3020), (0x3030, 0x3030), (0x30FB, 0x30FB), (0xFD3E, 0xFD3F), (0xFE10, 0xFE6F), (0xFEFF, 0xFEFF),
    (0xFF00, 0xFF0F), (0xFF1A, 0xFF20), (0xFF3B, 0xFF40), (0xFF5B, 0xFF65), (0xFFE0, 0xFFFF),
)  # fmt: skip
_ALONE = ((0x3005, 0x3007), (0x3021, 0x302F), (0x3040, 0x30FA), (0x30FC, 0x31FF), (0x3400, 0x9FFF), (0xF900, 0xFAFF))

_SEPARATES, _STANDS_ALONE = np.uint32(0), np.uint32(1 << 31)
# An odd number whose powers weight the words of a gram.
_BASE = np.uint64(0x9E3779B97F4A7C15)
_FULL = np.uint64(pow(0x9E3779B97F4A7C15, GRAM, 1 << 64))


@cache
def letter_table() -> np.ndarray:
    """uint32 [65536]: a code point's lower case, 0 for a separator; the top bit marks a character that is a word.

    Lower case is of single code points and stable between Unicode versions for all characters assigned before them.
    """
    table = np.arange(0x10000, dtype=np.uint32)
    for code in range(0x10000):
        lower = chr(code).lower()
        if len(lower) == 1 and ord(lower) != code:
            table[code] = ord(lower) & 0xFFFF
        elif code < 0x80 and not chr(code).isalnum():
            table[code] = _SEPARATES
    for start, end in _SEPARATORS:
        table[start : end + 1] = _SEPARATES
    for start, end in _ALONE:
        table[start : end + 1] |= _STANDS_ALONE
    table.setflags(write=False)
    return table


_TABLE = types.Array(types.uint32, 1, "C", readonly=True)


@intrinsic
def _load_8(typing: Any, data: Any, at: Any) -> Any:
    """Eight bytes from ``at`` on as a little-endian number, at any alignment."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), ir.IntType(64).as_pointer())
        return builder.load(place, align=1)

    return types.uint64(data, types.int64), generate


@intrinsic
def _prefetch(typing: Any, array: Any, at: Any) -> Any:
    """Tell the processor that this element will be read soon."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch.p0", fnty=kind)
        builder.call(function, [place, ir.Constant(number, 0), ir.Constant(number, 3), ir.Constant(number, 1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@intrinsic
def _trailing_zeros(typing: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@njit(inline="always")
def _fold(word, letters):  # type: ignore[no-untyped-def]
    """The hash of a word that continues with eight bytes of ``letters`` (fewer at its end, never 0)."""
    word = (word ^ letters) * uint64(0x9FB21C651E98DF25)
    return word ^ (word >> uint64(32))


@njit(nogil=True)
def _ascii_words(data, start, end, letters, words):  # type: ignore[no-untyped-def]
    """Write the hashes of a text's words to ``words``; returns their number, or -1 for a text that is not ASCII.

    ``letters`` has room for the text and 8 bytes more: it gets the letters in lower case, and 0 for all else.
    """
    size, beyond = end - start, np.uint8(0)
    # Without branches, so that the compiler vectorises it.
    for index in range(uint64(size)):
        byte = data[uint64(start) + index]
        lower = np.uint8(byte | np.uint8(0x20))
        letter = np.uint8(lower - np.uint8(97)) < np.uint8(26)
        digit = np.uint8(byte - np.uint8(48)) < np.uint8(10)
        letters[index] = lower if letter else (byte if digit else np.uint8(0))
        beyond |= byte
    if beyond >= np.uint8(0x80):
        return -1
    for index in range(size, size + 8):
        letters[index] = 0
    count, at = 0, 0
    while at < size:
        if letters[at] == 0:
            at += 1
            continue
        word = uint64(0)
        while True:
            eight = _load_8(letters, at)
            # The lowest set bit marks the first byte that is 0.
            zeros = (eight - uint64(0x0101010101010101)) & ~eight & uint64(0x8080808080808080)
            if zeros == 0:
                word = _fold(word, eight)
                at += 8
                continue
            bits = _trailing_zeros(zeros) & ~7
            if bits:
                word = _fold(word, eight & ((uint64(1) << uint64(bits)) - uint64(1)))
            at += (bits >> 3) + 1
            break
        words[count] = mix64(word)
        count += 1
    return count


@njit(nogil=True)
def _words(data, start, end, table, words):  # type: ignore[no-untyped-def]
    """As ``_ascii_words``, for any text."""
    count, word, eight, bits = 0, uint64(0), uint64(0), uint64(0)
    within = False
    at = start
    while at < end:
        lead = np.uint32(data[at])
        if lead < 0x80:
            letter = table[lead]
            at += 1
        elif lead < 0xE0:
            letter = table[((lead & np.uint32(0x1F)) << np.uint32(6)) | np.uint32(data[at + 1] & 0x3F)]
            at += 2
        elif lead < 0xF0:
            high = ((lead & np.uint32(0x0F)) << np.uint32(12)) | (np.uint32(data[at + 1] & 0x3F) << np.uint32(6))
            letter = table[high | np.uint32(data[at + 2] & 0x3F)]
            at += 3
        else:
            letter = (lead & np.uint32(0x07)) << np.uint32(18) | (np.uint32(data[at + 1] & 0x3F) << np.uint32(12))
            letter |= (np.uint32(data[at + 2] & 0x3F) << np.uint32(6)) | np.uint32(data[at + 3] & 0x3F)
            # Planes 2 and 3 are Han; emoji and other symbols separate; the rest are scripts with spaces.
            if letter >= np.uint32(0x20000):
                letter |= _STANDS_ALONE
            elif np.uint32(0x1F000) <= letter:
                letter = _SEPARATES
            at += 4
        if letter == _SEPARATES or letter >= _STANDS_ALONE:
            if within:
                words[count] = mix64(_fold(word, eight) if bits else word)
                count += 1
                word, eight, bits, within = uint64(0), uint64(0), uint64(0), False
            if letter != _SEPARATES:
                words[count] = mix64(uint64(letter))
                count += 1
            continue
        within = True
        # One byte for an ASCII letter, four with the top bit for any other: different words have different bytes.
        for shift in range(0, 6 if letter < 0x80 else 24, 6):
            byte = (
                uint64(letter) if letter < 0x80 else uint64(0x80) | ((uint64(letter) >> uint64(shift)) & uint64(0x3F))
            )
            eight |= byte << bits
            bits += uint64(8)
            if bits == 64:
                word, eight, bits = _fold(word, eight), uint64(0), uint64(0)
    if within:
        words[count] = mix64(_fold(word, eight) if bits else word)
        count += 1
    return count


@njit(nogil=True)
def gram_hashes(data, start, end, table, letters, words, grams):  # type: ignore[no-untyped-def]
    """Write the hashes of a text's grams, in order, to ``grams``; returns their number.

    A text of ``FEWEST`` to 12 words is one gram of all its words; a shorter one has none. ``words`` and ``grams`` have
    room for the text's bytes, ``letters`` for 8 more.
    """
    count = _ascii_words(data, start, end, letters, words)
    if count < 0:
        count = _words(data, start, end, table, words)
    if count < FEWEST:
        return 0
    sum_ = uint64(0)
    for index in range(min(count, GRAM)):
        sum_ = sum_ * _BASE + words[index]
    if count <= GRAM:
        grams[0] = mix64(sum_ + uint64(count))
        return 1
    grams[0] = mix64(sum_ + uint64(GRAM))
    for index in range(GRAM, count):
        sum_ = sum_ * _BASE + words[index] - words[index - GRAM] * _FULL
        grams[index - GRAM + 1] = mix64(sum_ + uint64(GRAM))
    return count - GRAM + 1


# Number of grams between the prefetch of a memory address and its use.
_AHEAD = 24
_WORDS = types.Array(types.uint64, 1, "C", readonly=True)
_SOURCES = types.Array(types.int16, 1, "C", readonly=True)


@njit(nogil=True)
def _longest(offsets):  # type: ignore[no-untyped-def]
    longest = 0
    for row in range(len(offsets) - 1):
        longest = max(longest, offsets[row + 1] - offsets[row])
    return longest


@njit(types.uint64[::1](types.int64[::1], BYTES, _TABLE), cache=True, nogil=True)
def all_grams(offsets, data, table):  # type: ignore[no-untyped-def]
    room = _longest(offsets) + 1
    letters, words, grams = np.empty(room + 8, np.uint8), np.empty(room, np.uint64), np.empty(room, np.uint64)
    found = np.empty(max(offsets[-1] - offsets[0], 1), np.uint64)
    total = 0
    for row in range(len(offsets) - 1):
        count = gram_hashes(data, offsets[row], offsets[row + 1], table, letters, words, grams)
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
            _prefetch(keys, np.int64(grams[index + _AHEAD] & mask))
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
        types.int64[::1], BYTES, _TABLE, _WORDS, _SOURCES, _WORDS, types.int64,
        types.int64, types.uint32[::1], types.uint32[::1], types.int16[::1],
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def count_overlap(offsets, data, table, keys, sources, bits, known, common, counts, hits, most):  # type: ignore[no-untyped-def]
    room = _longest(offsets) + 1
    letters, words, grams = np.empty(room + 8, np.uint8), np.empty(room, np.uint64), np.empty(room, np.uint64)
    mask, word_mask = uint64(len(keys) - 1), uint64(len(bits) - 1)
    tally = np.zeros(known, np.int64)
    for row in range(len(offsets) - 1):
        count = gram_hashes(data, offsets[row], offsets[row + 1], table, letters, words, grams)
        found, ignored = 0, 0
        for index in range(count):
            key = max(grams[index], uint64(1))
            if index + _AHEAD < count:
                _prefetch(bits, np.int64((grams[index + _AHEAD] >> uint64(30)) & word_mask))
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
