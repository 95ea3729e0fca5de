"""Arrow strings as the kernels see them, and the hashes of their 5-character shingles.

Kernels take ``offsets`` (int64, n + 1) and ``data`` (uint8, UTF-8): text i is ``data[offsets[i]:offsets[i + 1]]``.
"""

import numpy as np
import pyarrow as pa
from numba import njit, types, uint32, uint64

SHINGLE = 5
"""Characters (code points) of a shingle."""

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
"""The numba type of ``data``: Arrow's buffers are read-only."""

# xxh32 of https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md, seed 0.
_P1, _P2, _P3 = np.uint32(0x9E3779B1), np.uint32(0x85EBCA77), np.uint32(0xC2B2AE3D)
_P4, _P5 = np.uint32(0x27D4EB2F), np.uint32(0x165667B1)


def text_buffers(texts: pa.Array | pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """``offsets`` int64 [n + 1] and ``data`` uint8 of a string array (a slice too); null counts as "".

    Raises TypeError for an array that is no ``string`` or ``large_string``.
    """
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    wide = pa.types.is_large_string(texts.type)
    if not wide and not pa.types.is_string(texts.type):
        raise TypeError(f"texts should be an array of strings, not of {texts.type}")
    if texts.null_count:
        texts = texts.fill_null("")
    _, places, letters = texts.buffers()
    if places is None or len(texts) == 0:
        return np.zeros(len(texts) + 1, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(places, np.int64 if wide else np.int32)[texts.offset : texts.offset + len(texts) + 1]
    data = np.zeros(0, np.uint8) if letters is None else np.frombuffer(letters, np.uint8)
    return offsets.astype(np.int64), data


@njit(inline="always")
def _rotate(value, bits):  # type: ignore[no-untyped-def]
    return uint32((value << uint32(bits)) | (value >> uint32(32 - bits)))


@njit(inline="always")
def _word(data, at):  # type: ignore[no-untyped-def]
    """Four bytes as a little-endian number."""
    return uint32(
        uint32(data[at])
        | (uint32(data[at + 1]) << uint32(8))
        | (uint32(data[at + 2]) << uint32(16))
        | (uint32(data[at + 3]) << uint32(24))
    )


@njit(inline="always")
def _avalanche(value):  # type: ignore[no-untyped-def]
    value = uint32((value ^ (value >> uint32(15))) * _P2)
    value = uint32((value ^ (value >> uint32(13))) * _P3)
    return uint32(value ^ (value >> uint32(16)))


@njit(inline="always")
def _round(lane, word):  # type: ignore[no-untyped-def]
    return uint32(_rotate(uint32(lane + word * _P2), 13) * _P1)


@njit(inline="always")
def _xxh32_of_5(data, at):  # type: ignore[no-untyped-def]
    """xxh32 of exactly five bytes, without a branch: the loop over an ASCII text vectorises."""
    value = uint32(_P5 + uint32(5))
    value = uint32(_rotate(uint32(value + _word(data, at) * _P3), 17) * _P4)
    value = uint32(_rotate(uint32(value + uint32(data[at + 4]) * _P5), 11) * _P1)
    return _avalanche(value)


@njit(inline="always")
def xxh32(data, start, end):  # type: ignore[no-untyped-def]
    """xxh32 of ``data[start:end]``, seed 0."""
    at = start
    if end - start >= 16:
        one, two = uint32(_P1 + _P2), _P2
        three, four = uint32(0), uint32(uint32(0) - _P1)
        while at + 16 <= end:
            one, two = _round(one, _word(data, at)), _round(two, _word(data, at + 4))
            three, four = _round(three, _word(data, at + 8)), _round(four, _word(data, at + 12))
            at += 16
        value = uint32(_rotate(one, 1) + _rotate(two, 7) + _rotate(three, 12) + _rotate(four, 18))
    else:
        value = _P5
    value = uint32(value + uint32(end - start))
    while at + 4 <= end:
        value = uint32(_rotate(uint32(value + _word(data, at) * _P3), 17) * _P4)
        at += 4
    while at < end:
        value = uint32(_rotate(uint32(value + uint32(data[at]) * _P5), 11) * _P1)
        at += 1
    return _avalanche(value)


@njit(inline="always")
def mix32(value):  # type: ignore[no-untyped-def]
    """MurmurHash3's finalizer, with which datasketch's ``affine32`` starts."""
    value = uint32((value ^ (value >> uint32(16))) * uint32(0x85EBCA6B))
    value = uint32((value ^ (value >> uint32(13))) * uint32(0xC2B2AE35))
    return uint32(value ^ (value >> uint32(16)))


@njit(inline="always")
def mix64(value):  # type: ignore[no-untyped-def]
    """MurmurHash3's 64-bit finalizer."""
    value = uint64((value ^ (value >> uint64(33))) * uint64(0xFF51AFD7ED558CCD))
    value = uint64((value ^ (value >> uint64(33))) * uint64(0xC4CEB9FE1A85EC53))
    return uint64(value ^ (value >> uint64(33)))


@njit(nogil=True)
def is_ascii(data, start, end):  # type: ignore[no-untyped-def]
    seen = np.uint8(0)
    for at in range(start, end):
        seen |= data[at]
    return seen < 128


@njit(nogil=True)
def letters_of(data, start, end, places):  # type: ignore[no-untyped-def]
    """Where each code point of a text starts, into ``places`` (its end behind the last); how many there are."""
    count = 0
    for at in range(start, end):
        places[count] = at
        count += (data[at] & 0xC0) != 0x80
    places[count] = end
    return count


@njit(nogil=True)
def shingle_hashes(data, start, end, places, hashes):  # type: ignore[no-untyped-def]
    """``mix32(xxh32(shingle))`` of all shingles of a text into ``hashes``; how many there are.

    ``places`` and ``hashes`` have room for one element more than the text has bytes. A text of 1 to 4 characters is
    one shingle, "" has none.
    """
    if end == start:
        return 0
    if is_ascii(data, start, end):
        count = end - start - SHINGLE + 1
        if count <= 0:
            hashes[0] = mix32(xxh32(data, start, end))
            return 1
        text = data[start:end]
        for index in range(count):
            hashes[index] = mix32(_xxh32_of_5(text, index))
        return count
    letters = letters_of(data, start, end, places)
    count = letters - SHINGLE + 1
    if count <= 0:
        hashes[0] = mix32(xxh32(data, start, end))
        return 1
    for index in range(count):
        hashes[index] = mix32(xxh32(data, places[index], places[index + SHINGLE]))
    return count
