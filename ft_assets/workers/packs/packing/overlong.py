"""Handle a document that is longer than a window: remove tokens that are not learned, or cut it into pieces."""

import numpy as np
from numpy.typing import NDArray

_CRUMBS = 8
"""A piece shorter than this fraction of a window lacks context and teaches little."""


def shorten(learned: NDArray[np.bool_], contents: NDArray[np.int8], max_length: int) -> NDArray[np.bool_] | None:
    """Which tokens of a document to keep so that it has at most ``max_length``, bool [tokens], or None.

    Only unlearned tokens inside messages' contents may be removed. The longest run of them loses its end, up to all but
    its first token; if that is not enough, the next longest does too, and so on (ties: earlier first). The document's
    first token stays: without a predecessor, the first learned token could no longer be learned. None if removing all
    of these is not enough.

        learned   . . . . . . . . 1 1 1     of eleven tokens eight may stay, so the only content that is not learned
        contents  0 0 1 1 1 1 0 0 2 2 0     loses its last three; what the template wrote around it stays
        kept      1 1 1 . . . 1 1 1 1 1

    Args:
        learned: bool [tokens], the tokens in the loss.
        contents: int8 [tokens], 0 for tokens not wholly inside one content; adjacent contents differ.
        max_length: most tokens of a window.
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
    """Cut positions of a text of ``length`` tokens, int64 [pieces + 1] from 0 to ``length``.

    Pieces are as long as a window, so that each token is predicted from as much text as a window allows and no room is
    wasted; the last piece is the rest. If it is shorter than an eighth of a window, it takes the difference from the
    previous piece. Raises ValueError for a length or a window below 1.
    """
    if min(length, max_length) < 1:
        raise ValueError("length and max_length are at least 1")
    edges = np.append(np.arange(0, length, max_length, dtype=np.int64), length)
    if len(edges) > 2:
        edges[-2] = min(int(edges[-2]), length - max_length // _CRUMBS)
    return edges
