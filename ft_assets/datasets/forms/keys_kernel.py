"""numba kernels over all texts of a batch; for the shapes of the arguments see ``keys._Columns``."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Buffers = tuple[NDArray[np.int32], ...]
Data = tuple[NDArray[np.uint8], ...]

FIELDS = 5
CONTENT, TOOL_CALLS = 1, 2
TEXT, TOOLS = 15, 16
PROMPT_BYTES = 64
_START = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_MIX = np.uint64(0xFF51AFD7ED558CCD)


@njit(cache=True, nogil=True)
def _trim(data: NDArray[np.uint8], start: int, end: int) -> tuple[int, int]:
    while start < end and (data[start] == 32 or data[start] == 10 or data[start] == 9):
        start += 1
    while start < end and (data[end - 1] == 32 or data[end - 1] == 10 or data[end - 1] == 9):
        end -= 1
    return start, end


@njit(cache=True, nogil=True)
def _write_number(value: int, out: NDArray[np.uint8], at: int) -> int:
    for index in range(4):
        out[at + index] = (value >> (8 * index)) & 255
    return at + 4


@njit(cache=True, nogil=True)
def _copy(data: NDArray[np.uint8], start: int, end: int, out: NDArray[np.uint8], at: int) -> int:
    for index in range(end - start):
        out[at + index] = data[start + index]
    return at + end - start


@njit(cache=True, nogil=True)
def content_bytes(rows: int, lists: Buffers, offsets: Buffers, data: Data, out: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Write what is hashed of each row to ``out``; the ends of the rows in it, int64 [rows].

    The number of turns of messages, chosen and rejected (4 bytes, little-endian) stands before each of them, the length
    in bytes before each text.
    """
    ends = np.empty(rows, np.int64)
    at = 0
    for row in range(rows):
        for column in range(3):
            first, last = lists[column][row], lists[column][row + 1]
            at = _write_number(last - first, out, at)
            for turn in range(first, last):
                for field in range(FIELDS):
                    place = column * FIELDS + field
                    start, end = offsets[place][turn], offsets[place][turn + 1]
                    if field == CONTENT:
                        start, end = _trim(data[place], start, end)
                    at = _write_number(end - start, out, at)
                    at = _copy(data[place], start, end, out, at)
        for place in (TEXT, TOOLS):
            start, end = offsets[place][row], offsets[place][row + 1]
            if place == TEXT:
                start, end = _trim(data[place], start, end)
            at = _write_number(end - start, out, at)
            at = _copy(data[place], start, end, out, at)
        ends[row] = at
    return ends


@njit(cache=True, nogil=True)
def hash_piece(data: NDArray[np.uint8], start: int, end: int, state: np.uint64) -> np.uint64:
    """``state`` after the bytes and their number: FNV-1a over words of 8 bytes, folded so that high bits count."""
    state = (state ^ np.uint64(end - start)) * _PRIME
    while start < end:
        word = np.uint64(0)
        for shift in range(min(8, end - start)):
            word |= np.uint64(data[start + shift]) << np.uint64(8 * shift)
        state = (state ^ word) * _PRIME
        state ^= state >> np.uint64(32)
        start += 8
    return state


@njit(cache=True, nogil=True)
def prompt_hashes(rows: int, lists: Buffers, offsets: Buffers, data: Data) -> NDArray[np.uint64]:
    """See ``keys.prompt_keys``; uint64 [rows]."""
    keys = np.empty(rows, np.uint64)
    for row in range(rows):
        state = _START
        first, last = lists[0][row], lists[0][row + 1]
        # Of the roles, only the user's begins with u.
        while last > first and data[0][offsets[0][last - 1]] != 117:
            last -= 1
        said = 0
        for turn in range(first, last):
            start, end = _trim(data[CONTENT], offsets[CONTENT][turn], offsets[CONTENT][turn + 1])
            state = hash_piece(data[CONTENT], start, end, state)
            if data[0][offsets[0][turn]] == 117:
                said += end - start
                if said >= PROMPT_BYTES:
                    break
        if first == last:
            start, end = _trim(data[TEXT], offsets[TEXT][row], offsets[TEXT][row + 1])
            state = hash_piece(data[TEXT], start, end, state)
        state = (state ^ (state >> np.uint64(33))) * _MIX
        keys[row] = state ^ (state >> np.uint64(33))
    return keys


@njit(cache=True, nogil=True)
def flat_bytes(
    rows: int, lists: Buffers, offsets: Buffers, data: Data, out: NDArray[np.uint8], ends: NDArray[np.int32]
) -> None:
    """Write the texts of each row to ``out``, joined by line feeds, and where each row ends to ``ends`` [rows + 1]."""
    at = 0
    for row in range(rows):
        begin = at
        for column in range(3):
            for turn in range(lists[column][row], lists[column][row + 1]):
                for field in (CONTENT, TOOL_CALLS):
                    place = column * FIELDS + field
                    start, end = offsets[place][turn], offsets[place][turn + 1]
                    if end > start:
                        if at > begin:
                            out[at] = 10
                            at += 1
                        at = _copy(data[place], start, end, out, at)
        start, end = offsets[TEXT][row], offsets[TEXT][row + 1]
        if end > start:
            if at > begin:
                out[at] = 10
                at += 1
            at = _copy(data[TEXT], start, end, out, at)
        ends[row + 1] = at
