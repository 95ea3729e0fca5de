"""Best-fit-decreasing: each document goes, longest first, into the fullest window that still has room.

Johnson, "Near-optimal bin packing algorithms", 1973. Documents of equal length and windows with equal remaining room
are handled together, so the time depends on the number of different lengths, hardly on the number of documents.
"""

import numpy as np
from numba import njit

_BLOCK = 64


@njit(cache=True, nogil=True)
def best_fit(histogram):  # type: ignore[no-untyped-def]
    """Fillings that use up ``histogram``, in the format of ``completion.complete``.

    Windows with equal contents are a group. A group refers to the group it was split from when its last documents were
    added (``share`` of one length in each window); ``windows[g]`` counts those without a further document.
    """
    max_length = len(histogram) - 1
    before, length_of, share_of, windows, following = [-1], [0], [0], [0], [-1]
    heads = np.full(max_length + 1, -1)
    # For each 64 neighbouring rooms, how many have a group, to find the next room faster.
    blocks = np.zeros(max_length // _BLOCK + 1, np.int64)
    for length in range(max_length, 0, -1):
        left = histogram[length]
        while left:
            room = _next_room(heads, blocks, length)
            group = heads[room] if room <= max_length else 0
            if group == 0:
                room = max_length
                windows[0] = -(-left // (room // length))
            each = room // length
            taken = min(windows[group], -(-left // each))
            rest = min(left - each * (taken - 1), each)
            windows[group] -= taken
            if group and windows[group] == 0:
                heads[room] = following[group]
                blocks[room // _BLOCK] -= heads[room] < 0
            # The last window may get fewer documents than fit.
            full = taken - (rest < each)
            for number, share in ((full, each), (taken - full, rest)):
                if number == 0:
                    continue
                after = room - share * length
                before.append(group)
                length_of.append(length)
                share_of.append(share)
                windows.append(number)
                following.append(heads[after])
                if after:
                    blocks[after // _BLOCK] += heads[after] < 0
                    heads[after] = len(before) - 1
                left -= number * share
    lengths, counts, edges, repeats = [0 for _ in range(0)], [0 for _ in range(0)], [0], [0 for _ in range(0)]
    for last in range(len(before)):
        if windows[last] == 0:
            continue
        group = last
        while group:
            lengths.append(length_of[group])
            counts.append(share_of[group])
            group = before[group]
        edges.append(len(lengths))
        repeats.append(windows[last])
    return np.array(lengths), np.array(counts), np.array(edges), np.array(repeats)


@njit
def _next_room(heads, blocks, room):  # type: ignore[no-untyped-def]
    """The smallest room, at least ``room``, of some window, or one larger than all."""
    while room < len(heads) and heads[room] < 0:
        room += 1
        while room % _BLOCK == 0 and room < len(heads) and blocks[room // _BLOCK] == 0:
            room += _BLOCK
    return min(room, len(heads))
