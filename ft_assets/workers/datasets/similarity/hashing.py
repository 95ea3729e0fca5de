"""Arrow strings as kernels see them, and the MinHash kernels over their 5-character shingles.

Kernels take ``offsets`` (int64, n + 1) and ``data`` (uint8, UTF-8): text i is ``data[offsets[i]:offsets[i + 1]]``.

numba's disk cache notices changes only in the file of a cached kernel. So a cached kernel and everything it calls share
a file, or the kernel is compiled by ``compiled``. Only ``mix64``, which never changes, may be called from any file.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from llvmlite import ir
from numba import njit, types, uint32, uint64
from numba.extending import intrinsic

SHINGLE = 5
"""Characters (code points) of a shingle."""
PERMUTATIONS = 128
_LANES, _VECTORS = 16, 4
# Permutations kept in registers while a text's hashes are read: four vectors of AVX-512, eight of AVX2.
_BLOCK = _LANES * _VECTORS

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
"""The numba type of ``data``: Arrow's buffers are read-only."""

# xxh32 of https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md, seed 0.
_P1, _P2, _P3 = np.uint32(0x9E3779B1), np.uint32(0x85EBCA77), np.uint32(0xC2B2AE3D)
_P4, _P5 = np.uint32(0x27D4EB2F), np.uint32(0x165667B1)

# From MurmurHash3's finalizer.
_MIX_1, _MIX_2 = 0x85EBCA6B, 0xC2B2AE35


def text_buffers(texts: pa.Array | pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """``offsets`` int64 [n + 1] and ``data`` uint8 of a string array (a slice too); null counts as "".

    Raises TypeError for an array that is neither ``string`` nor ``large_string``.
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


@njit(forceinline=True)
def _rotate(value, bits):  # type: ignore[no-untyped-def]
    return uint32((value << uint32(bits)) | (value >> uint32(32 - bits)))


@njit(forceinline=True)
def _word(data, at):  # type: ignore[no-untyped-def]
    """Four bytes as a little-endian number."""
    return uint32(
        uint32(data[at])
        | (uint32(data[at + 1]) << uint32(8))
        | (uint32(data[at + 2]) << uint32(16))
        | (uint32(data[at + 3]) << uint32(24))
    )


@njit(forceinline=True)
def _avalanche(value):  # type: ignore[no-untyped-def]
    value = uint32((value ^ (value >> uint32(15))) * _P2)
    value = uint32((value ^ (value >> uint32(13))) * _P3)
    return uint32(value ^ (value >> uint32(16)))


@njit(forceinline=True)
def _round(lane, word):  # type: ignore[no-untyped-def]
    return uint32(_rotate(uint32(lane + word * _P2), 13) * _P1)


@intrinsic
def _hash_16(typing: Any, text: Any, at: Any, hashes: Any) -> Any:
    """``mix32(xxh32(text[i:i + 5]))`` of the 16 shingles from ``at`` on, as LLVM vectors.

    LLVM's own vectoriser leaves this loop scalar, which then costs half as much again as all 128 permutations.
    """
    signature = types.void(text, types.int64, hashes)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, lane = ir.VectorType(ir.IntType(8), 16), ir.VectorType(ir.IntType(32), 16)

        def start(argument: int) -> Any:
            array = context.make_array(signature.args[argument])
            return builder.gep(array(context, builder, arguments[argument]).data, [arguments[1]])

        def number(value: int) -> Any:
            return ir.Constant(lane, [value & 0xFFFFFFFF] * 16)

        def letters(offset: int) -> Any:
            place = builder.gep(start(0), [ir.Constant(ir.IntType(64), offset)])
            return builder.zext(builder.load(builder.bitcast(place, byte.as_pointer()), align=1), lane)

        def rotate(value: Any, bits: int) -> Any:
            return builder.or_(builder.shl(value, number(bits)), builder.lshr(value, number(32 - bits)))

        def fold(value: Any, bits: int) -> Any:
            return builder.xor(value, builder.lshr(value, number(bits)))

        word = letters(0)
        for offset in (1, 2, 3):
            word = builder.or_(word, builder.shl(letters(offset), number(8 * offset)))
        value = builder.add(number(int(_P5) + 5), builder.mul(word, number(int(_P3))))
        value = builder.mul(rotate(value, 17), number(int(_P4)))
        value = builder.add(value, builder.mul(letters(4), number(int(_P5))))
        value = builder.mul(rotate(value, 11), number(int(_P1)))
        # The avalanche of xxh32, then that of mix32.
        for bits, factor in ((15, int(_P2)), (13, int(_P3)), (16, 1), (16, _MIX_1), (13, _MIX_2), (16, 1)):
            value = builder.mul(fold(value, bits), number(factor))
        builder.store(value, builder.bitcast(start(2), lane.as_pointer()), align=4)
        return context.get_dummy_value()

    return signature, generate


@njit(nogil=True)
def _ascii_hashes(data, start, count, hashes):  # type: ignore[no-untyped-def]
    """``mix32(xxh32(shingle))`` of the ``count`` shingles of five bytes from ``start`` on."""
    if count < 16:
        for index in range(count):
            hashes[index] = mix32(xxh32(data, start + index, start + index + SHINGLE))
        return
    text = data[start : start + count + SHINGLE - 1]
    for index in range(0, count - 15, 16):
        _hash_16(text, index, hashes)
    # The last 16 overlap those before them.
    _hash_16(text, count - 16, hashes)


@njit(forceinline=True)
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


@njit(forceinline=True)
def mix32(value):  # type: ignore[no-untyped-def]
    """MurmurHash3's finalizer, the first step of datasketch's ``affine32``."""
    value = uint32((value ^ (value >> uint32(16))) * uint32(_MIX_1))
    value = uint32((value ^ (value >> uint32(13))) * uint32(_MIX_2))
    return uint32(value ^ (value >> uint32(16)))


@njit(forceinline=True)
def mix64(value):  # type: ignore[no-untyped-def]
    """MurmurHash3's 64-bit finalizer."""
    value = uint64((value ^ (value >> uint64(33))) * uint64(0xFF51AFD7ED558CCD))
    value = uint64((value ^ (value >> uint64(33))) * uint64(0xC4CEB9FE1A85EC53))
    return uint64(value ^ (value >> uint64(33)))


@njit(nogil=True)
def is_ascii(data, start, end):  # type: ignore[no-untyped-def]
    seen = 0
    # Unsigned: a signed index may be negative (from the end), and LLVM would not vectorise.
    for at in range(uint64(start), uint64(end)):
        seen |= data[at]
    return seen < 128


@njit(nogil=True)
def letters_of(data, start, end, places):  # type: ignore[no-untyped-def]
    """Write where each code point of a text starts to ``places``, then the text's end; returns their number."""
    count = 0
    for at in range(start, end):
        places[count] = at
        count += (data[at] & 0xC0) != 0x80
    places[count] = end
    return count


@njit(nogil=True)
def shingle_hashes(data, start, end, places, hashes):  # type: ignore[no-untyped-def]
    """Write ``mix32(xxh32(shingle))`` of all shingles of a text to ``hashes``; returns their number.

    ``places`` and ``hashes`` have room for one element more than the text has bytes. A text of 1 to 4 characters is one
    shingle, "" has none.
    """
    if end == start:
        return 0
    if is_ascii(data, start, end):
        count = end - start - SHINGLE + 1
        if count <= 0:
            hashes[0] = mix32(xxh32(data, start, end))
            return 1
        _ascii_hashes(data, start, count, hashes)
        return count
    letters = letters_of(data, start, end, places)
    count = letters - SHINGLE + 1
    if count <= 0:
        hashes[0] = mix32(xxh32(data, start, end))
        return 1
    for index in range(count):
        hashes[index] = mix32(xxh32(data, places[index], places[index + SHINGLE]))
    return count


@intrinsic
def _min_affine(typing: Any, hashes: Any, count: Any, a: Any, b: Any, first: Any, out: Any) -> Any:
    """``out[k] = min(out[k], min(a[k] * hashes[:count] + b[k]))`` for the 64 permutations from ``first`` on.

    Written as LLVM vectors because LLVM's own vectoriser uses half registers and does not keep the minima in them: this
    is 1.6 times as fast with AVX-512. Other processors get the same numbers from narrower instructions.
    """
    signature = types.void(hashes, types.int64, a, b, types.int64, out)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lane, index = ir.IntType(32), ir.IntType(64)
        vector = ir.VectorType(lane, _LANES)
        count, first = arguments[1], arguments[4]

        def start(argument: int) -> Any:
            array = context.make_array(signature.args[argument])
            return array(context, builder, arguments[argument]).data

        def place(base: Any, number: int) -> Any:
            element = builder.gep(base, [builder.add(first, ir.Constant(index, number * _LANES))])
            return builder.bitcast(element, vector.as_pointer())

        def vectors(argument: int) -> list[Any]:
            base = start(argument)
            return [builder.load(place(base, number), align=4) for number in range(_VECTORS)]

        factors, terms, minima = vectors(2), vectors(3), vectors(5)
        before = builder.block
        head, body, after = (builder.append_basic_block(name) for name in ("head", "body", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        position = builder.phi(index)
        position.add_incoming(ir.Constant(index, 0), before)
        running = [builder.phi(vector) for _ in minima]
        for phi, value in zip(running, minima, strict=True):
            phi.add_incoming(value, before)
        builder.cbranch(builder.icmp_signed("<", position, count), body, after)
        builder.position_at_end(body)
        undefined = ir.Constant(vector, ir.Undefined)
        value = builder.load(builder.gep(start(0), [position]))
        single = builder.insert_element(undefined, value, ir.Constant(lane, 0))
        spread = builder.shuffle_vector(single, undefined, ir.Constant(ir.VectorType(lane, _LANES), [0] * _LANES))
        for phi, factor, term in zip(running, factors, terms, strict=True):
            permuted = builder.add(builder.mul(spread, factor), term)
            phi.add_incoming(builder.select(builder.icmp_unsigned("<", permuted, phi), permuted, phi), body)
        position.add_incoming(builder.add(position, ir.Constant(index, 1)), body)
        builder.branch(head)
        builder.position_at_end(after)
        base = start(5)
        for number, phi in enumerate(running):
            builder.store(phi, place(base, number), align=4)
        return context.get_dummy_value()

    return signature, generate


@njit(nogil=True)
def longest(offsets):  # type: ignore[no-untyped-def]
    """The most that lies between two neighbouring offsets."""
    most = 0
    for row in range(len(offsets) - 1):
        most = max(most, offsets[row + 1] - offsets[row])
    return most


@njit(nogil=True)
def _sign(data, start, end, a, b, places, hashes, out):  # type: ignore[no-untyped-def]
    """Write one text's signature to ``out`` (uint32 [128])."""
    count = shingle_hashes(data, start, end, places, hashes)
    for index in range(PERMUTATIONS):
        out[index] = uint32(0xFFFFFFFF)
    for first in range(0, PERMUTATIONS, _BLOCK):
        _min_affine(hashes, count, a, b, first, out)


_GIVEN = (types.int64[::1], BYTES, types.uint32[::1], types.uint32[::1])


@njit(types.void(*_GIVEN, types.uint32[:, ::1]), cache=True, nogil=True)
def fill_signatures(offsets, data, a, b, found):  # type: ignore[no-untyped-def]
    places = np.empty(longest(offsets) + 1, np.int64)
    hashes = np.empty(len(places), np.uint32)
    for row in range(len(offsets) - 1):
        _sign(data, offsets[row], offsets[row + 1], a, b, places, hashes, found[row])


@njit(types.void(*_GIVEN, types.int64, types.uint64[:, ::1]), cache=True, nogil=True)
def fill_bands(offsets, data, a, b, rows, found):  # type: ignore[no-untyped-def]
    places = np.empty(longest(offsets) + 1, np.int64)
    hashes = np.empty(len(places), np.uint32)
    signature = np.empty(PERMUTATIONS, np.uint32)
    for row in range(len(offsets) - 1):
        _sign(data, offsets[row], offsets[row + 1], a, b, places, hashes, signature)
        for band in range(len(found)):
            value = uint64(band)
            for index in range(band * rows, (band + 1) * rows):
                value = uint64((value ^ uint64(signature[index])) * uint64(0x9E3779B97F4A7C15))
                value ^= value >> uint64(32)
            found[band, row] = mix64(value)
