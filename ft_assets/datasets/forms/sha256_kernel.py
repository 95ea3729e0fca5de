"""SHA-256 (FIPS 180-4) of many messages at once, sixteen side by side in the lanes of vectors.

One message after another, a core without instructions for SHA takes 7 cycles a byte; so it is about one.
"""

from functools import reduce
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types, uint32
from numba.extending import intrinsic

LANES = 16


def _roots(power: float, count: int) -> list[int]:
    """The first 32 bits of the fractions of the first primes' roots."""
    primes = [number for number in range(2, 312) if all(number % lower for lower in range(2, number))][:count]
    return [int((prime**power) % 1 * 2**32) for prime in primes]


_ROUNDS = _roots(1 / 3, 64)
_START = np.array(_roots(1 / 2, 8), np.uint32)


@intrinsic
def _mix_block(typing: Any, state: Any, words: Any) -> Any:
    """Bring ``state`` (uint32 [8, LANES]) over a block of each lane's message, ``words`` (uint32 [16, LANES])."""
    signature = types.void(state, words)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lane = ir.VectorType(ir.IntType(32), LANES)

        def places(argument: int, count: int) -> list[Any]:
            data = context.make_array(signature.args[argument])(context, builder, arguments[argument]).data
            rows = [builder.gep(data, [ir.Constant(ir.IntType(64), row * LANES)]) for row in range(count)]
            return [builder.bitcast(row, lane.as_pointer()) for row in rows]

        def number(value: int) -> Any:
            return ir.Constant(lane, [value] * LANES)

        def total(*values: Any) -> Any:
            return reduce(builder.add, values)

        def turned(value: Any, *bits: int, shifted: int | None = None) -> Any:
            """``value`` rotated right by each of ``bits``, and shifted by another number, all xored."""
            parts = [builder.or_(builder.lshr(value, number(by)), builder.shl(value, number(32 - by))) for by in bits]
            if shifted:
                parts.append(builder.lshr(value, number(shifted)))
            return reduce(builder.xor, parts)

        words = [builder.load(place, align=4) for place in places(1, 16)]
        before = [builder.load(place, align=4) for place in places(0, 8)]
        a, b, c, d, e, f, g, h = before
        for round_ in range(64):
            if round_ >= 16:
                near = turned(words[round_ - 2], 17, 19, shifted=10)
                far = turned(words[round_ - 15], 7, 18, shifted=3)
                words.append(total(near, words[round_ - 7], far, words[round_ - 16]))
            chosen = builder.xor(g, builder.and_(e, builder.xor(f, g)))
            majority = builder.or_(builder.and_(a, b), builder.and_(c, builder.or_(a, b)))
            one = total(h, number(_ROUNDS[round_]), words[round_], chosen, turned(e, 6, 11, 25))
            two = total(turned(a, 2, 13, 22), majority)
            a, b, c, d, e, f, g, h = total(one, two), a, b, c, total(d, one), e, f, g
        for place, old, new in zip(places(0, 8), before, (a, b, c, d, e, f, g, h), strict=True):
            builder.store(builder.add(old, new), place, align=4)
        return context.get_dummy_value()

    return signature, generate


@njit(cache=True, nogil=True)
def digest_blocks(words, starts, order, digests):  # type: ignore[no-untyped-def]
    """Fill ``digests`` (uint8 [rows, 32]) for the rows in ``order``, which best have ascending lengths.

    Row r is the blocks of 16 ``words`` (uint32) from ``starts[r]`` to ``starts[r + 1]``, padded as the standard says.
    """
    state = np.empty((8, LANES), np.uint32)
    block = np.empty((16, LANES), np.uint32)
    begins, ends = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    for first in range(0, len(order), LANES):
        rows = order[first : first + LANES]
        most = 0
        for lane in range(LANES):
            # Lanes without a message go along with the last.
            row = rows[min(lane, len(rows) - 1)]
            begins[lane], ends[lane] = starts[row], starts[row + 1]
            most = max(most, ends[lane] - begins[lane])
        # All end together: a shorter message starts over and over until it is its turn.
        for left in range(most, 0, -1):
            for lane in range(LANES):
                at = ends[lane] - left
                if at <= begins[lane]:
                    at = begins[lane]
                    state[:, lane] = _START
                for index in range(16):
                    word = words[16 * at + index]
                    block[index, lane] = (
                        (word << uint32(24))
                        | ((word & uint32(0xFF00)) << uint32(8))
                        | ((word >> uint32(8)) & uint32(0xFF00))
                        | (word >> uint32(24))
                    )
            _mix_block(state, block)
        for lane in range(len(rows)):
            for index in range(8):
                for byte in range(4):
                    digests[rows[lane], 4 * index + byte] = (state[index, lane] >> uint32(24 - 8 * byte)) & uint32(255)
