"""Which documents of equal length go where: sorted by length, shuffled, dealt out to the windows."""

import numpy as np
from numba import njit, uint64


@njit(cache=True, nogil=True)
def shuffle(values, edges, first, draws):  # type: ignore[no-untyped-def]
    """Shuffle the groups edges[g] .. edges[g + 1] of ``values`` in place, from ``first`` on as far as ``draws`` reach.

    Fisher-Yates, forwards: each value is swapped with one drawn from itself and those before it in its group. ``draws``
    are 64 random bits per value, of which the upper 32 are used.
    """
    group = np.searchsorted(edges, first, side="right") - 1
    for place in range(first, first + len(draws)):
        while place >= edges[group + 1]:
            group += 1
        start = edges[group]
        other = start + ((draws[place - first] >> uint64(32)) * uint64(place - start + 1) >> uint64(32))
        values[place], values[other] = values[other], values[place]


@njit(cache=True, nogil=True)
def deal(order, starts, lengths, counts, edges, repeats, rank):  # type: ignore[no-untyped-def]
    """The documents of all windows, concatenated, and each window's offset, int64 [windows + 1].

    ``order`` are documents by length, those of length n from starts[n] on; filling f has ``counts`` documents of
    ``lengths`` in edges[f] .. edges[f + 1] and fills ``repeats[f]`` windows; window w is placed at rank[w].
    """
    offsets = np.zeros(len(rank) + 1, np.int64)
    window = 0
    for filling in range(len(repeats)):
        size = counts[edges[filling] : edges[filling + 1]].sum()
        for _ in range(repeats[filling]):
            offsets[rank[window] + 1] = size
            window += 1
    offsets = np.cumsum(offsets)
    following = starts.copy()
    dealt = np.empty_like(order)
    window = 0
    for filling in range(len(repeats)):
        for _ in range(repeats[filling]):
            place = offsets[rank[window]]
            for run in range(edges[filling], edges[filling + 1]):
                source = following[lengths[run]]
                for _ in range(counts[run]):
                    dealt[place] = order[source]
                    place, source = place + 1, source + 1
                following[lengths[run]] = source
            window += 1
    return dealt, offsets
