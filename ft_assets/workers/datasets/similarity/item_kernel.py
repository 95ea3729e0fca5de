"""Which test items a text contains, anywhere in it and with their choices in any order."""

import numpy as np
from numba import njit, types, uint64

from ft_assets.workers.datasets.similarity.folding import LINE
from ft_assets.workers.datasets.similarity.hashing import mix64
from ft_assets.workers.datasets.similarity.loads import prefetch

PIECE = 5
"""Words of the pieces that questions are found by."""
WHOLE = 12
"""Questions of at most this many words are also looked up whole, between two breaks."""
NEEDED = 0.9
"""The share of a question's telling words that must be found."""
TELLING = 8
"""A question with fewer telling words is found alone only whole, between two breaks."""
ENOUGH, ALL_WORDS = 5, 7
"""A question that gives nothing away by itself does so beside choices of at least ENOUGH words, or beside all its
choices if they and the question have ALL_WORDS together."""
OWN_LINE = 4
"""A short question of at least this many words is found on a line of its own, anywhere; "Who are you?" is not."""
_WINDOW, _STEP = 1024, 512
_MOST_HITS = 8192
_AHEAD = 24
# Instead of a piece's place: a whole part after a break, between two breaks, on a line of its own, or at the text's
# start.
_AFTER, _BETWEEN, _ALONE, _OPENING = 0xFFFFC, 0xFFFFD, 0xFFFFE, 0xFFFFF
_BASE = np.uint64(0x9E3779B97F4A7C15)
_OF_LAST = np.uint64(pow(0x9E3779B97F4A7C15, PIECE - 1, 1 << 64))
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_WHOLE_SEED = np.uint64(0xD6E8FEB86659FD93)


@njit(types.uint64[::1](types.int64[::1], types.uint64[::1]), cache=True, nogil=True)
def whole_hashes(starts, words):  # type: ignore[no-untyped-def]
    """A hash of all words of each text; 0 for a text without words."""
    found = np.zeros(len(starts) - 1, np.uint64)
    for row in range(len(found)):
        sum_ = uint64(0)
        for index in range(starts[row], starts[row + 1]):
            sum_ = sum_ * _BASE + words[index]
        if starts[row + 1] > starts[row]:
            found[row] = mix64(sum_ ^ _WHOLE_SEED)
    return found


@njit(nogil=True)
def _pieces(words, start, end, hashes):  # type: ignore[no-untyped-def]
    """Write the hash of the PIECE words from each word on to ``hashes``; returns their number."""
    if end - start < PIECE:
        return 0
    sum_ = uint64(0)
    for index in range(start, start + PIECE - 1):
        sum_ = sum_ * _BASE + words[index]
    last = uint64(0)
    for index in range(end - start - PIECE + 1):
        sum_ = (sum_ - last * _OF_LAST) * _BASE + words[start + index + PIECE - 1]
        last = words[start + index]
        mixed = (sum_ ^ (sum_ >> uint64(32))) * _MIX
        hashes[index] = mixed ^ (mixed >> uint64(29))
    return end - start - PIECE + 1


@njit(types.uint64[::1](types.uint64[::1]), cache=True, nogil=True)
def piece_hashes(words):  # type: ignore[no-untyped-def]
    """The hash of the PIECE words from each word on, across texts."""
    found = np.empty(len(words), np.uint64)
    return found[: _pieces(words, 0, len(words), found)]


@njit(inline="always")
def _two_bits(key):  # type: ignore[no-untyped-def]
    return (uint64(1) << (key >> uint64(58))) | (uint64(1) << ((key >> uint64(52)) & uint64(63)))


@njit(types.void(types.uint64[::1], types.uint64[::1], types.int32[::1], types.uint64[::1]), cache=True, nogil=True)
def enter(hashes, keys, values, bits):  # type: ignore[no-untyped-def]
    """Fill an open-addressing table: the value of a hash is its index + 1. All ``hashes`` differ and none is 0."""
    mask, word_mask = uint64(len(keys) - 1), uint64(len(bits) - 1)
    for index in range(len(hashes)):
        slot = hashes[index] & mask
        while keys[slot] != 0:
            slot = (slot + uint64(1)) & mask
        keys[slot], values[slot] = hashes[index], index + 1
        bits[(hashes[index] >> uint64(30)) & word_mask] |= _two_bits(hashes[index])


@njit(inline="always")
def _look_up(key, keys, values):  # type: ignore[no-untyped-def]
    """The index of a hash, or -1."""
    mask = uint64(len(keys) - 1)
    slot = key & mask
    while keys[slot] != 0 and keys[slot] != key:
        slot = (slot + uint64(1)) & mask
    return values[slot] - 1 if keys[slot] == key else -1


@njit(nogil=True)
def _stands_in(words, start, end, sought, first, last):  # type: ignore[no-untyped-def]
    """Whether the sequence ``sought[first:last]`` is in ``words[start:end]``."""
    size = last - first
    for at in range(start, end - size + 1):
        if words[at] != sought[first]:
            continue
        index = 1
        while index < size and words[at + index] == sought[first + index]:
            index += 1
        if index == size:
            return True
    return False


@njit(nogil=True)
def _opens(words, start, first, labels):  # type: ignore[no-untyped-def]
    """Whether a text opens with its word ``first``, or a label before it ("Question: …")."""
    found = first == start
    for label in labels:
        found |= first == start + 1 and words[start] == label
    return found


@njit(nogil=True)
def _choices(item, words, start, end, choice_starts, choice_ends, choice_words):  # type: ignore[no-untyped-def]
    """(number of an item's choices that are in a text, number of all its choices, words of those in the text)."""
    found, said = 0, 0
    for choice in range(choice_starts[item], choice_starts[item + 1]):
        first, last = choice_ends[choice], choice_ends[choice + 1]
        if last > first and _stands_in(words, start, end, choice_words, first, last):
            found += 1
            said += last - first
    return found, choice_starts[item + 1] - choice_starts[item], said


_KEYS = types.Array(types.uint64, 1, "C", readonly=True)
_INTS = types.Array(types.int32, 1, "C", readonly=True)
_LONGS = types.Array(types.int64, 1, "C", readonly=True)
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)


@njit(
    types.void(
        types.int64[::1], types.uint64[::1], types.uint8[::1],
        _KEYS, _INTS, _KEYS, _INTS, _INTS, _INTS, _INTS, _INTS,
        _BYTES, _INTS, _INTS, _INTS, _LONGS, _KEYS, _KEYS,
        types.int32[::1], types.float32[::1], types.uint8[::1], types.uint8[::1],
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def find_items(  # type: ignore[no-untyped-def]
    starts, words, breaks,
    keys, values, bits, piece_starts, piece_parts, piece_places, part_sizes, part_telling,
    part_alone, part_starts, part_items, choice_starts, choice_ends, choice_words, labels,
    items, shares, chosen, whole,
):  # fmt: skip
    """For each text, the item of which it contains most.

    The tables: hashes with the first ``len(piece_starts) - 1`` values are pieces, with their parts and places; the
    others are whole parts. A part is a question of ``part_sizes`` words, of which ``part_telling`` are in pieces that
    few parts have.
    ``items`` gets the item (-1: none), ``shares`` the share of its telling words that were found, ``chosen`` how many
    of its choices were, ``whole`` 1 if the text gives the item away, 2 if only by a short question (``part_alone`` 2):
    such a question must open the text (perhaps after one of ``labels``) and end with its line, or be its own line.
    """
    pieces = len(piece_starts) - 1
    hits = np.empty(_MOST_HITS, np.int64)
    hashes = np.empty(_WINDOW, np.uint64)
    word_mask = uint64(len(bits) - 1)
    for row in range(len(starts) - 1):
        items[row], shares[row], chosen[row], whole[row] = -1, 0, 0, 0
        most = 0
        begin = starts[row]
        while True:
            end = min(begin + _WINDOW, starts[row + 1])
            count = 0
            size = _pieces(words, begin, end, hashes)
            for index in range(size):
                key = hashes[index]
                if index + _AHEAD < size:
                    prefetch(bits, np.int64((hashes[index + _AHEAD] >> uint64(30)) & word_mask))
                both = _two_bits(key)
                if bits[(key >> uint64(30)) & word_mask] & both != both:
                    continue
                piece = _look_up(key, keys, values)
                if 0 <= piece < pieces:
                    for each in range(piece_starts[piece], piece_starts[piece + 1]):
                        if count < _MOST_HITS:
                            hits[count] = (np.int64(piece_parts[each]) << 20) | piece_places[each]
                            count += 1
            for first in range(begin, end):
                if breaks[first] == 0:
                    continue
                sum_ = uint64(0)
                for last in range(first, min(first + WHOLE, end)):
                    sum_ = sum_ * _BASE + words[last]
                    ends = last + 1 == starts[row + 1] or breaks[last + 1] > 0
                    # Longer ones are found by their pieces.
                    if not ends and last - first >= PIECE - 1:
                        continue
                    key = mix64(sum_ ^ _WHOLE_SEED)
                    both = _two_bits(key)
                    if bits[(key >> uint64(30)) & word_mask] & both != both:
                        continue
                    part = _look_up(key, keys, values) - pieces
                    if part >= 0 and count < _MOST_HITS:
                        line = last + 1 == starts[row + 1] or breaks[last + 1] == LINE
                        opens = line and _opens(words, starts[row], first, labels)
                        own = line and breaks[first] == LINE and last - first + 1 >= OWN_LINE
                        hits[count] = (np.int64(part) << 20) | (
                            _OPENING if opens else _ALONE if own else _BETWEEN if ends else _AFTER
                        )
                        count += 1
            if count:
                hits[:count].sort()
            at = 0
            while at < count:
                part = hits[at] >> 20
                covered, reached, place = 0, 0, 0
                while at < count and hits[at] >> 20 == part:
                    place = hits[at] & _OPENING
                    if place < _AFTER:
                        covered += max(place + PIECE - max(reached, place), 0)
                        reached = max(reached, place + PIECE)
                    at += 1
                # Hits are sorted: the last one says most.
                whole_at = place if place >= _AFTER else 0
                share = 1.0 if whole_at else covered / part_telling[part]
                full = share >= NEEDED
                telling = whole_at >= _BETWEEN or (full and part_telling[part] >= TELLING)
                # The item with most words here wins; one that is given away comes before all others.
                weight = max(covered, 1)
                if weight + 15 + ((1 << 20) if full else 0) <= most:
                    continue
                for each in range(part_starts[part], part_starts[part + 1]):
                    item = part_items[each]
                    found, all_, said = _choices(item, words, begin, end, choice_starts, choice_ends, choice_words)
                    beside = said >= ENOUGH or (found == all_ > 1 and part_sizes[part] + said >= ALL_WORDS)
                    short = part_alone[part] == 2
                    alone = part_alone[part] == 1 and telling
                    alone |= short and (
                        whole_at >= _ALONE or (whole_at == _BETWEEN and part_sizes[part] > 2 and said > 1)
                    )
                    gives = full and (alone or beside)
                    score = weight + ((1 << 20) if gives else 0) + min(found, 15)
                    if score > most:
                        most = score
                        items[row], shares[row], chosen[row] = item, share, min(found, 255)
                        whole[row] = 0 if not gives else 2 if short and not said else 1
            if end == starts[row + 1]:
                break
            begin += _STEP
