"""numba kernels over all texts of a batch; for the shapes of the arguments see ``content_keys._Columns``."""

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from ft_assets.workers.datasets.forms.plain_keys import PROMPT_BYTES

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

FIELDS = 5
CONTENT, TOOL_CALLS = 1, 2
TEXT, TOOLS = 15, 16
# Three turn counts and two text lengths, of 4 bytes each.
ADDED = 5 * 4
_START = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_MIX = np.uint64(0xFF51AFD7ED558CCD)


@njit(cache=True, nogil=True, forceinline=True)
def _span(first: Longs, offsets: Longs, column: int, index: int) -> tuple[int, int]:
    """Where a text begins and ends in the data."""
    if first[column] < 0:
        return 0, 0
    at = first[column] + index
    return offsets[at], offsets[at + 1]


@njit(cache=True, nogil=True)
def _trim(data: Bytes, start: int, end: int) -> tuple[int, int]:
    while start < end and (data[start] == 32 or data[start] == 10 or data[start] == 9):
        start += 1
    while start < end and (data[end - 1] == 32 or data[end - 1] == 10 or data[end - 1] == 9):
        end -= 1
    return start, end


@njit(cache=True, nogil=True, forceinline=True)
def _write_number(value: int, out: Bytes, at: int) -> int:
    for index in range(4):
        out[at + index] = (value >> (8 * index)) & 255
    return at + 4


@njit(cache=True, nogil=True)
def _copy(data: Bytes, start: int, end: int, out: Bytes, at: int) -> int:
    # Unsigned: a signed index may be negative (from the end), which would make LLVM copy byte by byte.
    for index in range(uint64(end - start)):
        out[uint64(at) + index] = data[uint64(start) + index]
    return at + end - start


@njit(cache=True, nogil=True)
def hashed_bytes(rows: int, lists: Ints, first: Longs, offsets: Longs, data: Bytes, out: Bytes) -> Longs:
    """Write the bytes to be hashed of each row to ``out``; returns where each row begins there [rows + 1].

    Messages, chosen and rejected are each preceded by their number of turns (4 bytes, little-endian), each text by its
    length in bytes.
    """
    starts = np.zeros(rows + 1, np.int64)
    at = 0
    for row in range(rows):
        for column in range(3):
            turns = lists[column, row + 1] - lists[column, row]
            at = _write_number(turns, out, at)
            for turn in range(lists[column, row], lists[column, row + 1]):
                for field in range(FIELDS):
                    start, end = _span(first, offsets, column * FIELDS + field, turn)
                    if field == CONTENT:
                        start, end = _trim(data, start, end)
                    at = _write_number(end - start, out, at)
                    at = _copy(data, start, end, out, at)
        for column in (TEXT, TOOLS):
            start, end = _span(first, offsets, column, row)
            if column == TEXT:
                start, end = _trim(data, start, end)
            at = _write_number(end - start, out, at)
            at = _copy(data, start, end, out, at)
        starts[row + 1] = at
    return starts


@njit(cache=True, nogil=True)
def hash_piece(data: Bytes, start: int, end: int, state: np.uint64) -> np.uint64:
    """``state`` after hashing the bytes and their number: FNV-1a over 8-byte words, folded so that high bits count."""
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
def prompt_hashes(rows: int, lists: Ints, first: Longs, offsets: Longs, data: Bytes) -> NDArray[np.uint64]:
    """See ``content_keys.prompt_keys``; uint64 [rows]."""
    keys = np.empty(rows, np.uint64)
    for row in range(rows):
        state = _START
        begin, last = lists[0, row], lists[0, row + 1]
        # Only the role "user" begins with u.
        while last > begin and not _is_user(first, offsets, data, last - 1):
            last -= 1
        said = 0
        for turn in range(begin, last):
            start, end = _span(first, offsets, CONTENT, turn)
            start, end = _trim(data, start, end)
            state = hash_piece(data, start, end, state)
            if _is_user(first, offsets, data, turn):
                said += end - start
                if said >= PROMPT_BYTES:
                    break
        if begin == last:
            start, end = _span(first, offsets, TEXT, row)
            start, end = _trim(data, start, end)
            state = hash_piece(data, start, end, state)
        state = (state ^ (state >> np.uint64(33))) * _MIX
        keys[row] = state ^ (state >> np.uint64(33))
    return keys


@njit(cache=True, nogil=True, forceinline=True)
def _is_user(first: Longs, offsets: Longs, data: Bytes, turn: int) -> bool:
    start, end = _span(first, offsets, 0, turn)
    return end > start and data[start] == 117


@njit(cache=True, nogil=True)
def flat_bytes(rows: int, lists: Ints, first: Longs, offsets: Longs, data: Bytes, out: Bytes, ends: Ints) -> None:
    """Write the texts of each row to ``out``, joined by line feeds, and where each row ends to ``ends`` [rows + 1]."""
    at = 0
    for row in range(rows):
        begin = at
        for column in range(3):
            for turn in range(lists[column, row], lists[column, row + 1]):
                for field in (CONTENT, TOOL_CALLS):
                    start, end = _span(first, offsets, column * FIELDS + field, turn)
                    at = _join(data, start, end, out, begin, at)
        start, end = _span(first, offsets, TEXT, row)
        at = _join(data, start, end, out, begin, at)
        ends[row + 1] = at


@njit(cache=True, nogil=True, forceinline=True)
def _join(data: Bytes, start: int, end: int, out: Bytes, begin: int, at: int) -> int:
    if end == start:
        return at
    if at > begin:
        out[at] = 10
        at += 1
    return _copy(data, start, end, out, at)
