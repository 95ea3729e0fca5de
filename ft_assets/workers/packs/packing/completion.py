"""Fill windows to the last token: documents drawn evenly from the remaining ones, then two that make the sum exact.

Plain best-fit wastes a little of every window and ends with documents of similar length. Here

* a document longer than half a window goes first, longest first, while enough is left to fill the rest;
* others follow at evenly spread ranks of the remaining documents, which so keep their mixture to the end;
* once two documents could fill the gap, two that do so exactly are searched for;
* if there are none, the gap is filled as far as possible: subset sum with counts by dynamic
  programming over sums (Kellerer, Pferschy, Pisinger, "Knapsack Problems", 2004, section 7).

All this is done on a histogram of lengths, and a filling is repeated as long as there are documents for it, so the time
depends on the number of different lengths and hardly on the number of documents.
"""

import numpy as np
from numba import njit, uint64

_STEPS = 40_000_000
"""Steps of all searches of a pack together, about 0.15 s; gaps after that are filled best first."""

# The golden ratio's multiples spread most evenly between 0 and 1, here 0 and 2**64 (Weyl's sequence).
_GOLDEN = 0x9E3779B97F4A7C15


@njit(cache=True, nogil=True)
def complete(histogram, start):  # type: ignore[no-untyped-def]
    """Fillings that use up ``histogram`` (int64 [max_length + 1], the number of documents of each length).

    ``start`` (uint64) is the initial state of the drawing; another one gives other fillings, mostly equally good.
    Returns ``lengths`` and ``counts`` of runs of equal documents, ``edges`` (filling f has the runs edges[f] ..
    edges[f + 1]) and ``repeats`` (how many windows have this filling), all int64.
    """
    max_length = len(histogram) - 1
    free, tree, top = histogram.copy(), _tree(histogram), 1
    while 2 * top <= max_length:
        top *= 2
    chosen, last, used = np.zeros((3, max_length + 1), np.int64)
    lengths, counts = [chosen[0] for _ in range(0)], [chosen[0] for _ in range(0)]
    edges, repeats = [chosen[0]], [chosen[0] for _ in range(0)]
    documents, drawn, budget = histogram.sum(), uint64(start), _STEPS
    while documents:
        number, stuck, drawn, steps = _fill(free, tree, top, documents, chosen, drawn, budget > 0)
        budget -= steps
        # First only documents added since no two filled the gap are chosen again, then all but the first.
        while stuck:
            gap = max_length - chosen[:stuck].sum()
            if gap * np.count_nonzero(free[1 : gap + 1]) > budget:
                break
            for place in range(stuck, number):
                _change(free, tree, chosen[place], 1)
            budget -= _reach(free, gap, last, used)
            number = _choose(free, tree, chosen, stuck, gap, last)
            stuck = 1 if stuck > 1 and last[gap] == 0 else 0
        filling = np.sort(chosen[:number])
        first, repeat = len(lengths), documents
        for place in range(number):
            if place and filling[place] == filling[place - 1]:
                counts[-1] += 1
            else:
                lengths.append(filling[place])
                counts.append(1)
        for run in range(first, len(lengths)):
            repeat = min(repeat, free[lengths[run]] // counts[run] + 1)
        for run in range(first, len(lengths)):
            _change(free, tree, lengths[run], -counts[run] * (repeat - 1))
        edges.append(len(lengths))
        repeats.append(repeat)
        documents -= number * repeat
    return np.array(lengths), np.array(counts), np.array(edges), np.array(repeats)


@njit
def _fill(free, tree, top, documents, chosen, drawn, searching):  # type: ignore[no-untyped-def]
    """Take the documents of one window.

    Returns how many were taken; how many of them before the first search for two documents failed (0 if the window is
    full); the state of the drawing; and the steps of the search.
    """
    gap, number, stuck, steps = len(free) - 1, 0, 0, 0
    longest = _at_rank(tree, top, documents - 1)
    length = longest
    if 2 * longest <= gap:
        drawn += uint64(_GOLDEN)
        length = _drawn(tree, top, drawn, documents)
    while True:
        chosen[number] = length
        number, gap = number + 1, gap - length
        _change(free, tree, length, -1)
        drawn += uint64(_GOLDEN)
        fitting = documents - number if gap >= longest else _up_to(tree, gap)
        if fitting == 0:
            return number, stuck if gap else 0, drawn, steps
        length = _drawn(tree, top, drawn, fitting)
        if gap > 2 * longest:
            continue
        most = _at_rank(tree, top, fitting - 1)
        if most == gap or not searching:
            length = most
        elif gap <= 2 * most:
            one = _pair(free, gap, most)
            steps += min(one, most) - gap // 2
            if one <= most:
                chosen[number], chosen[number + 1] = one, gap - one
                _change(free, tree, one, -1)
                _change(free, tree, gap - one, -1)
                return number + 2, 0, drawn, steps
            stuck = stuck or number


@njit
def _pair(free, gap, most):  # type: ignore[no-untyped-def]
    """The longer of the two most equal lengths that sum to ``gap``, or ``most + 1``; ``gap / 2 <= most < gap``."""
    one = (gap + 1) // 2
    if 2 * one == gap and free[one] < 2:
        one += 1
    while one <= most and not (free[one] and free[gap - one]):
        one += 1
    return one


@njit
def _reach(free, gap, last, used):  # type: ignore[no-untyped-def]
    """Find the sums up to ``gap`` that free documents can make; returns the number of steps.

    ``last[s]`` becomes the length that first made the sum s, trying longer ones first, or 0, and ``used[s]`` the number
    of documents of that length in it.
    """
    last[1 : gap + 1] = 0
    last[0] = -1
    steps, length = 0, gap
    while length and last[gap] == 0:
        if free[length]:
            used[: gap + 1] = 0
            for total in range(length, gap + 1):
                before = total - length
                if last[total] == 0 and last[before] != 0 and used[before] < free[length]:
                    last[total], used[total] = length, used[before] + 1
            steps += gap
        length -= 1
    return steps


@njit
def _choose(free, tree, chosen, number, gap, last):  # type: ignore[no-untyped-def]
    """Take the documents that make the highest sum up to ``gap``; returns the number of documents then chosen."""
    total = gap
    while last[total] == 0:
        total -= 1
    while total:
        chosen[number] = last[total]
        _change(free, tree, last[total], -1)
        number, total = number + 1, total - last[total]
    return number


# The documents of each length, ``free``, are also kept as a binary indexed tree of sums (Fenwick 1994).


@njit
def _tree(histogram):  # type: ignore[no-untyped-def]
    tree = histogram.copy()
    for at in range(1, len(tree)):
        above = at + (at & -at)
        if above < len(tree):
            tree[above] += tree[at]
    return tree


@njit
def _change(free, tree, length, number):  # type: ignore[no-untyped-def]
    free[length] += number
    while length < len(tree):
        tree[length] += number
        length += length & -length


@njit
def _up_to(tree, length):  # type: ignore[no-untyped-def]
    """How many documents have at most this length."""
    total = 0
    while length:
        total += tree[length]
        length &= length - 1
    return total


@njit
def _drawn(tree, top, drawn, documents):  # type: ignore[no-untyped-def]
    """The length at the rank that ``drawn`` (out of 2**64) gives among the ``documents`` shortest."""
    return _at_rank(tree, top, (drawn >> uint64(32)) * uint64(documents) >> uint64(32))


@njit
def _at_rank(tree, top, rank):  # type: ignore[no-untyped-def]
    """The length of the document with this rank, from 0; ``top`` is the highest power of two below len(tree)."""
    at = 0
    while top:
        if at + top < len(tree) and tree[at + top] <= rank:
            at += top
            rank -= tree[at]
        top >>= 1
    return at + 1
