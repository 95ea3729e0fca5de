"""JSON lines in chunks whose ends depend only on the lines, so that a change moves only the nearby ends."""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from ft_assets.workers.datasets.intake.limits import ReadLimits
from ft_assets.workers.datasets.intake.spool import Spool

ROW_BYTES = ReadLimits().row_bytes
TARGET_BYTES = 4 << 20
_PIECE = 1 << 18


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """Whole lines of a spool.

    Args:
        lines: their bytes. A line that exceeds the maximum row length is replaced by an empty one, so that rows keep
            their numbers.
        start: where they begin in the spool, in bytes.
        first_row: number of the first line in the spool, from 1.
        ended: whether the last line has its line end (only in the last chunk it may be missing).
        too_long: rows that exceeded the maximum length, numbered from 1 in this chunk.
    """

    lines: bytes
    start: int
    first_row: int
    ended: bool
    too_long: tuple[int, ...] = ()


def chunks(spool: Spool, target_bytes: int = TARGET_BYTES, *, row_bytes: int = ROW_BYTES) -> Iterator[Chunk]:
    """The lines of ``spool`` in order, in chunks of half to twice ``target_bytes``, which is also their average.

    A line ends a chunk by a hash of that line alone, with a probability that grows with its length. So an inserted or
    removed row changes the chunk it is in, and rarely the next few. Memory: one chunk, and at most one row.
    """
    if row_bytes < 2 * target_bytes:
        raise ValueError("a row may be shorter than a chunk can be, so too long rows would pass")
    if spool.path.stat().st_size <= spool.start:
        return
    with spool.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start, row = spool.start, 1
        while start < len(data):
            end, too_long = _chunk_end(data, start, target_bytes, row_bytes)
            lines = b"\n" if too_long else data[start:end]
            yield Chunk(
                lines=lines,
                start=start,
                first_row=row,
                ended=lines.endswith(b"\n"),
                too_long=(1,) if too_long else (),
            )
            row += int(np.count_nonzero(np.frombuffer(lines, np.uint8) == 10))
            start = end


def _chunk_end(data: mmap.mmap, start: int, target: int, row_bytes: int) -> tuple[int, bool]:
    """Where the chunk that begins at ``start`` ends, and whether it is a single line that is too long."""
    least, most = start + target // 2, min(start + 2 * target, len(data))
    end = _content_end(data, start, least, most, target)
    if end:
        return end, False
    if most == len(data):
        return most, False
    # No line's hash ends the chunk: it ends where it is full, or after the line that fills it.
    end = data.rfind(b"\n", start, most) + 1 or data.find(b"\n", most, start + row_bytes) + 1
    if not end and len(data) - start <= row_bytes:
        end = len(data)
    return (end, False) if end else (data.find(b"\n", most) + 1 or len(data), True)


def _content_end(data: mmap.mmap, start: int, least: int, most: int, target: int) -> int:
    """The end of the first line, ending at or after ``least``, whose hash ends a chunk; 0 if none before ``most``."""
    begin = least
    line_start = data.rfind(b"\n", start, least) + 1 or start
    while begin < most:
        stop = min(begin + _PIECE, most)
        view = np.frombuffer(data, np.uint8, stop - line_start, line_start)
        ends = np.flatnonzero(view[begin - line_start :] == 10) + (begin - line_start)
        first = 0
        with view.data as text:
            for end in ends.tolist():
                # On average one end per ``target / 2`` bytes, as the lines' checksums are spread evenly over 32 bits.
                if crc32(text[first:end]) * target < (end - first + 1) << 33:
                    return line_start + end + 1
                first = end + 1
        line_start += first
        begin = stop
    return 0
