"""Global best-fit-decreasing packing of documents into windows.

Each document goes, longest first, into the fullest window that still has room (Johnson 1973, "Near-optimal bin
packing algorithms"). Documents of one length and windows of one remaining room are handled together, so the time
depends on how many different lengths there are, hardly on how many documents.
"""

import bisect
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ft_assets.packs.format import Layout


def pack(lengths: NDArray[np.int64], *, max_length: int, seed: int) -> Layout:
    """Windows of at most ``max_length`` tokens over documents of the given lengths (1 .. max_length each).

    Every document is in exactly one window, whole. Equal lengths are drawn in an order that ``seed`` decides, and
    so is the order of windows. Raises ValueError for a length outside 1 .. max_length.
    """
    count = len(lengths)
    if count and not (lengths.min() >= 1 and lengths.max() <= max_length):
        raise ValueError(f"document lengths must lie in 1 .. {max_length}")
    # Raw draws and not a Generator's methods: only they are promised to stay the same in other NumPy versions.
    draws = np.random.PCG64(seed)
    longest_first = np.lexsort((draws.random_raw(count), -lengths)) if count else np.empty(0, np.int64)
    windows = _best_fit(lengths[longest_first], max_length)
    total = int(windows.max()) + 1 if count else 0
    rank = np.empty(total, np.int64)
    rank[np.argsort(draws.random_raw(total), kind="stable")] = np.arange(total)
    placed = rank[windows]
    order = longest_first[np.argsort(placed, kind="stable")]
    sizes = np.bincount(placed, minlength=total)
    return Layout(
        order=order.astype(np.int64), window_offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    )


def _best_fit(lengths: NDArray[np.int64], max_length: int) -> NDArray[np.int64]:
    """The window of each document, numbered as they are opened; ``lengths`` falls.

    ``open_windows[r]`` are groups of windows with room for r more tokens and ``rooms`` its keys, sorted. Of a window
    with the smallest room r >= length, the next documents of the same length also fit it best, as long as any fits.
    """
    windows = np.empty(len(lengths), np.int64)
    open_windows: dict[int, list[NDArray[np.int64]]] = {}
    rooms: list[int] = []
    opened = 0

    def keep(room: int, group: NDArray[np.int64]) -> None:
        if room == 0 or len(group) == 0:
            return
        if room not in open_windows:
            open_windows[room] = []
            bisect.insort(rooms, room)
        open_windows[room].append(group)

    edges = [*np.flatnonzero(np.diff(lengths, prepend=-1)).tolist(), len(lengths)]
    for start, last in pairwise(edges):
        first, length = start, int(lengths[start])
        while first < last:
            place = bisect.bisect_left(rooms, length)
            if place == len(rooms):
                needed = -(-(last - first) // (max_length // length))
                keep(max_length, np.arange(opened, opened + needed))
                opened += needed
                continue
            room = rooms[place]
            group = open_windows[room].pop()
            if not open_windows[room]:
                del open_windows[room], rooms[place]
            each = room // length
            used = group[: -(-(last - first) // each)]
            keep(room, group[len(used) :])
            done = min(last - first, each * len(used))
            windows[first : first + done] = np.repeat(used, each)[:done]
            keep(room - each * length, used[:-1])
            keep(room - (done - each * (len(used) - 1)) * length, used[-1:])
            first += done
    return windows
