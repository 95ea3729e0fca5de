"""Global packing of documents into windows, from their lengths alone."""

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.offsets import offsets_of
from ft_assets.workers.packs.format import Layout

_STARTS = (0, 1 << 62, 1 << 63)
"""Initial states of the drawing; if one does not reach the minimum, another may."""

_DRAWS = 1 << 16


def pack(lengths: NDArray[np.int64], *, max_length: int, seed: int) -> Layout:
    """Windows of at most ``max_length`` tokens over documents of the given lengths (1 .. max_length each).

    Every document is in exactly one window, whole. The number of windows is the minimum for the tokens if a few tries
    reach it, and never more than best-fit-decreasing gives. ``seed`` determines the placement of documents of equal
    length and the order of windows. Raises ValueError for a length outside 1 .. max_length.

    Memory: two int64 per document besides the result and the lengths.
    """
    from ft_assets.workers.packs.packing.drawing import deal

    if len(lengths) and not (lengths.min() >= 1 and lengths.max() <= max_length):
        raise ValueError(f"document lengths must lie in 1 .. {max_length}")
    lengths = np.ascontiguousarray(lengths, np.int64)
    histogram = np.bincount(lengths, minlength=max_length + 1)
    runs, counts, edges, repeats = _fillings(histogram)
    # Raw draws, not a Generator's methods: only raw draws are guaranteed to stay the same in other NumPy versions.
    draws = np.random.PCG64(seed)
    starts = offsets_of(histogram)
    # Sorting is by radix, hence fast, for small types only.
    order = np.argsort(lengths.astype(np.min_scalar_type(max_length)), kind="stable")
    _shuffle(order, starts, draws)
    rank = np.arange(repeats.sum())
    _shuffle(rank, np.array([0, len(rank)]), draws)
    dealt, offsets = deal(order, starts, runs, counts, edges, repeats, rank)
    return Layout(order=dealt, window_offsets=offsets)


def _fillings(histogram: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Fillings in the format of ``complete``: the one with the fewest windows among some tries and best-fit."""
    from ft_assets.workers.packs.packing.best_fit import best_fit
    from ft_assets.workers.packs.packing.completion import complete

    max_length = len(histogram) - 1
    tokens, halves = int(histogram @ np.arange(max_length + 1)), int(histogram[max_length // 2 + 1 :].sum())
    needed = max(-(-tokens // max_length), halves)
    best = complete(histogram, np.uint64(_STARTS[0]))
    for start in (*_STARTS[1:], None):
        if best[-1].sum() == needed:
            break
        other = best_fit(histogram) if start is None else complete(histogram, np.uint64(start))
        best = min(best, other, key=lambda found: int(found[-1].sum()))
    return best


def _shuffle(values: NDArray[np.int64], edges: NDArray[np.int64], draws: np.random.PCG64) -> None:
    """Shuffle each group edges[g] .. edges[g + 1] of ``values`` in place, with little memory at a time."""
    from ft_assets.workers.packs.packing.drawing import shuffle

    for first in range(0, len(values), _DRAWS):
        shuffle(values, edges, first, draws.random_raw(min(_DRAWS, len(values) - first)))
