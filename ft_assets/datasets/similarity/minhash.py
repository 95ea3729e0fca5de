"""MinHash signatures of character 5-grams, and their bands (Broder 1997; Leskovec et al., Mining of Massive Datasets, 3).

Signatures are those of ``datasketch.MinHash(num_perm=128, seed=1, scheme="affine32", hashfunc=xxh32)`` fed the UTF-8 of
each 5-gram: permutation k of a hash h is ``a[k] * h + b[k] mod 2**32``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from llvmlite import ir
from numba import njit, types, uint32, uint64
from numba.extending import intrinsic

from ft_assets.datasets.similarity.hashing import BYTES, mix64, shingle_hashes, text_buffers

PERMUTATIONS = 128
_LANES, _VECTORS = 16, 4
# Permutations that stay in registers while the hashes of a text go by: four vectors of AVX-512, eight of AVX2.
_BLOCK = _LANES * _VECTORS


@dataclass(frozen=True, slots=True)
class Banding:
    """``bands`` of ``rows`` permutations each: texts that agree in all rows of a band are compared."""

    bands: int
    rows: int

    def recall(self, similarity: float) -> float:
        """The probability that two texts of this Jaccard similarity are compared."""
        return float(1 - (1 - similarity**self.rows) ** self.bands)


def banding(threshold: float) -> Banding:
    """The bands for a similarity threshold in [0.7, 1]: the fewest candidates with a recall of 0.99 or more at it.

    | threshold    | bands x rows | recall at 0.70 | 0.75   | 0.80   | 0.85   | 0.90    | 0.95    |
    |--------------|--------------|----------------|--------|--------|--------|---------|---------|
    | 0.70 to 0.80 | 25 x 5       | 0.9900         | 0.9988 | 0.9999 | 1.0000 | 1.0000  | 1.0000  |
    | 0.80 to 0.85 | 21 x 6       | 0.9283         | 0.9853 | 0.9983 | 0.9999 | 1.0000  | 1.0000  |
    | 0.85 to 1.00 | 16 x 8       | 0.6132         | 0.8170 | 0.9470 | 0.9938 | 0.99988 | 1.0000  |
    """
    if not 0.7 <= threshold <= 1:
        raise ValueError(f"the threshold should be from 0.7 to 1, not {threshold}")
    if threshold < 0.8:
        return Banding(25, 5)
    return Banding(21, 6) if threshold < 0.85 else Banding(16, 8)


def signatures(texts: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """uint32 [n, 128], datasketch's ``hashvalues``. A text of 1 to 4 characters is one shingle; "" has none, so all
    its values are 2**32 - 1, as of a MinHash that was never updated."""
    offsets, data = text_buffers(texts)
    found = np.empty((len(offsets) - 1, PERMUTATIONS), np.uint32)
    _signatures(offsets, data, *_permutations(), found)
    return found


def band_hashes(texts: pa.Array | pa.ChunkedArray, threshold: float = 0.9) -> np.ndarray:
    """uint64 [n, bands], in columns order: 16 bands for thresholds from 0.85 on (see ``banding``).

    Equal bands of signatures have equal hashes. The hashes of "" are its own and mean nothing: no text is near it.
    """
    offsets, data = text_buffers(texts)
    shape = banding(threshold)
    found = np.empty((len(offsets) - 1, shape.bands), np.uint64, order="F")
    _bands(offsets, data, *_permutations(), shape.rows, found)
    return found


def _permutations() -> tuple[np.ndarray, np.ndarray]:
    """datasketch's parameters for seed 1."""
    generator = np.random.RandomState(1)
    a = generator.randint(0, 1 << 31, PERMUTATIONS, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    return a, generator.randint(0, 1 << 32, PERMUTATIONS, dtype=np.uint32)


@intrinsic
def _min_affine(typing: Any, hashes: Any, count: Any, a: Any, b: Any, first: Any, out: Any) -> Any:
    """``out[k] = min(out[k], min(a[k] * hashes[:count] + b[k]))`` for the 64 permutations from ``first`` on.

    Written as LLVM vectors because its own vectoriser takes half registers and does not keep the minima in them: this
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
def _longest(offsets):  # type: ignore[no-untyped-def]
    longest = 0
    for row in range(len(offsets) - 1):
        longest = max(longest, offsets[row + 1] - offsets[row])
    return longest


@njit(nogil=True)
def _sign(data, start, end, a, b, places, hashes, out):  # type: ignore[no-untyped-def]
    """One text's signature into ``out`` (uint32 [128])."""
    count = shingle_hashes(data, start, end, places, hashes)
    for index in range(PERMUTATIONS):
        out[index] = uint32(0xFFFFFFFF)
    for first in range(0, PERMUTATIONS, _BLOCK):
        _min_affine(hashes, count, a, b, first, out)


_GIVEN = (types.int64[::1], BYTES, types.uint32[::1], types.uint32[::1])


@njit(types.void(*_GIVEN, types.uint32[:, ::1]), cache=True, nogil=True)
def _signatures(offsets, data, a, b, found):  # type: ignore[no-untyped-def]
    places = np.empty(_longest(offsets) + 1, np.int64)
    hashes = np.empty(len(places), np.uint32)
    for row in range(len(offsets) - 1):
        _sign(data, offsets[row], offsets[row + 1], a, b, places, hashes, found[row])


@njit(types.void(*_GIVEN, types.int64, types.uint64[::1, :]), cache=True, nogil=True)
def _bands(offsets, data, a, b, rows, found):  # type: ignore[no-untyped-def]
    places = np.empty(_longest(offsets) + 1, np.int64)
    hashes = np.empty(len(places), np.uint32)
    signature = np.empty(PERMUTATIONS, np.uint32)
    for row in range(len(offsets) - 1):
        _sign(data, offsets[row], offsets[row + 1], a, b, places, hashes, signature)
        for band in range(found.shape[1]):
            value = uint64(band)
            for index in range(band * rows, (band + 1) * rows):
                value = uint64((value ^ uint64(signature[index])) * uint64(0x9E3779B97F4A7C15))
                value ^= value >> uint64(32)
            found[row, band] = mix64(value)
