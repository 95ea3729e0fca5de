"""What becomes of a document that is longer than a window: cut where nothing is learned, or cut into pieces."""

import numpy as np
from numpy.typing import NDArray

_CRUMBS = 8
"""A piece of less than this part of a window, torn from its context, teaches little."""


def shorten(learned: NDArray[np.bool_], contents: NDArray[np.int8], max_length: int) -> NDArray[np.bool_] | None:
    """Which tokens of a document stay so that it has at most ``max_length``, bool [tokens], or None.

    Only tokens inside messages' contents that are not learned may go. The longest run of them loses its end, up to all
    but its first token; if that is not enough, the next longest too, and so on (of equally long ones the earlier
    first). The document's first token stays: without a token before it, the first learned one could not be learned any
    more. None where what may go does not suffice.

        learned   . . . . . . . . 1 1 1     of eleven tokens eight may stay, so the only content that is not learned
        contents  0 0 1 1 1 1 0 0 2 2 0     loses its last three; what the template wrote around it stays
        kept      1 1 1 . . . 1 1 1 1 1

    Args:
        learned: bool [tokens], the tokens that the loss looks at.
        contents: int8 [tokens], 0 for what is not wholly inside one content; contents that touch differ.
        max_length: tokens that a window may have.
    """
    surplus = len(learned) - max_length
    keep = np.ones(len(learned), np.bool_)
    if surplus <= 0:
        return keep
    free = np.where(learned, 0, contents)
    edges = np.flatnonzero(np.diff(free)) + 1
    starts, ends = np.append(0, edges), np.append(edges, len(free))
    chosen = free[starts] != 0
    starts, ends = starts[chosen], ends[chosen]
    for run in np.argsort(starts - ends, kind="stable").tolist():
        cut = min(surplus, int(ends[run] - starts[run]) - 1)
        keep[ends[run] - cut : ends[run]] = False
        surplus -= cut
        if not surplus:
            return keep
    return None


def pieces(length: int, max_length: int) -> NDArray[np.int64]:
    """Where a text of ``length`` tokens is cut, int64 [pieces + 1] from 0 to ``length``.

    Pieces are as long as a window, so that each token is predicted from as much text as a window allows and nothing
    is left empty; the rest is the last one. If it were shorter than an eighth of a window, it takes the difference
    from the piece before. Raises ValueError for a length or a window below 1.
    """
    if min(length, max_length) < 1:
        raise ValueError("length and max_length are at least 1")
    edges = np.append(np.arange(0, length, max_length, dtype=np.int64), length)
    if len(edges) > 2:
        edges[-2] = min(int(edges[-2]), length - max_length // _CRUMBS)
    return edges
