"""Byte-level BPE over UTF-8 bytes: cut text into pieces as known regular expressions do, and merge their bytes.

Compiled code. Everything it calls is in this file, as numba's cache detects changes of this file only.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

OTHER, LETTER, NUMBER, SPACE, NEWLINE, UNSURE = range(6)
"""Classes of characters; ``UNSURE`` are those whose class differs between Unicode versions."""

LONGEST_PIECE = 512
"""Maximum bytes of a piece merged here (time is quadratic in them)."""

_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit("uint64(uint64)", cache=True, nogil=True)
def _mixed(key):  # type: ignore[no-untyped-def]
    key = (key ^ (key >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return key ^ (key >> np.uint64(29))


@njit("void(int32[::1], int32[::1], int32[::1], uint64[::1], int32[:, ::1])", cache=True, nogil=True)
def fill_pairs(left, right, merged, keys, values):  # type: ignore[no-untyped-def]
    """Put merge ``i`` of ids ``left[i]`` and ``right[i]`` into an open hash table as (rank ``i``, ``merged[i]``)."""
    mask = np.uint64(len(keys) - 1)
    keys[:] = _EMPTY
    for rank in range(len(left)):
        key = (np.uint64(left[rank]) << np.uint64(32)) | np.uint64(right[rank])
        slot = _mixed(key) & mask
        while keys[slot] != _EMPTY and keys[slot] != key:
            slot = (slot + np.uint64(1)) & mask
        keys[slot] = key
        values[slot, 0] = rank
        values[slot, 1] = merged[rank]


@njit("int64(uint64[::1], int32, int32)", cache=True, nogil=True)
def _pair(keys, left, right):  # type: ignore[no-untyped-def]
    """The slot of a pair, or -1."""
    mask = np.uint64(len(keys) - 1)
    key = (np.uint64(left) << np.uint64(32)) | np.uint64(right)
    slot = _mixed(key) & mask
    while keys[slot] != _EMPTY:
        if keys[slot] == key:
            return np.int64(slot)
        slot = (slot + np.uint64(1)) & mask
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _merge(data, start, end, byte_ids, keys, values, ids, widths, ranks):  # type: ignore[no-untyped-def]
    """Merge the bytes ``start .. end``, lowest rank first and leftmost among equals; returns the number of tokens.

    Writes their ids to ``ids`` and their byte counts to ``widths``. ``ranks[i]`` is the rank of tokens i and i + 1.
    """
    count = end - start
    none = np.int32(2147483647)
    for place in range(count):
        ids[place] = byte_ids[data[start + place]]
        widths[place] = 1
    for place in range(count - 1):
        slot = _pair(keys, ids[place], ids[place + 1])
        ranks[place] = values[slot, 0] if slot >= 0 else none
    while count > 1:
        best, lowest = 0, none
        for place in range(count - 1):
            if ranks[place] < lowest:
                best, lowest = place, ranks[place]
        if lowest == none:
            break
        ids[best] = values[_pair(keys, ids[best], ids[best + 1]), 1]
        widths[best] += widths[best + 1]
        count -= 1
        for place in range(best + 1, count):
            ids[place] = ids[place + 1]
            widths[place] = widths[place + 1]
            ranks[place - 1] = ranks[place]
        for place in range(max(best - 1, 0), min(best + 1, count - 1)):
            slot = _pair(keys, ids[place], ids[place + 1])
            ranks[place] = values[slot, 0] if slot >= 0 else none
    return count


@njit("int64(uint8[::1], int64, uint8[::1])", cache=True, nogil=True)
def _character(data, place, classes):  # type: ignore[no-untyped-def]
    """Class and byte count of the character at ``place``, as ``class * 8 + bytes``."""
    first = np.int64(data[place])
    if first < 0x80:
        return np.int64(classes[first]) * 8 + 1
    if first < 0xE0:
        code, size = ((first & 0x1F) << 6) | (np.int64(data[place + 1]) & 0x3F), 2
    elif first < 0xF0:
        code = ((first & 0x0F) << 12) | ((np.int64(data[place + 1]) & 0x3F) << 6) | (np.int64(data[place + 2]) & 0x3F)
        size = 3
    else:
        code = ((first & 0x07) << 18) | ((np.int64(data[place + 1]) & 0x3F) << 12)
        code |= ((np.int64(data[place + 2]) & 0x3F) << 6) | (np.int64(data[place + 3]) & 0x3F)
        size = 4
    return (np.int64(classes[code]) if code < len(classes) else 5) * 8 + size


@njit("int64(uint8[::1], int64, int64, uint8[::1], int64)", cache=True, nogil=True)
def _run_end(data, place, end, classes, wanted):  # type: ignore[no-untyped-def]
    """End of the run of characters of class ``wanted`` from ``place`` on; -1 if one of them is unsure."""
    while place < end:
        found = _character(data, place, classes)
        if found >> 3 != wanted:
            return np.int64(-1) if found >> 3 == 5 else place
        place += found & 7
    return place


@njit("int64(uint8[::1], int64, int64, boolean)", cache=True, nogil=True)
def _contraction(data, place, end, any_case):  # type: ignore[no-untyped-def]
    """Byte count of ``'s 't 're 've 'm 'll 'd`` at an apostrophe, 0 if there is none, -1 for a letter that folds to
    s."""
    if place + 1 >= end:
        return np.int64(0)
    first = data[place + 1]
    second = data[place + 2] if place + 2 < end else np.uint8(0)
    if any_case:
        if first == 0xC5 and second == 0xBF:
            return np.int64(-1)
        first = first | np.uint8(0x20) if 65 <= first <= 90 else first
        second = second | np.uint8(0x20) if 65 <= second <= 90 else second
    if first == ord("s") or first == ord("t") or first == ord("m") or first == ord("d"):
        return np.int64(2)
    if (first == ord("r") or first == ord("v")) and second == ord("e"):
        return np.int64(3)
    return np.int64(3) if first == ord("l") and second == ord("l") else np.int64(0)


@njit("int64(uint8[::1], int64, int64, uint8[::1])", cache=True, nogil=True)
def _space_end(data, place, end, classes):  # type: ignore[no-untyped-def]
    r"""``\s+(?!\S)|\s+``: white space except its last character, if more text follows and it is not alone."""
    last = place
    start = place
    while place < end:
        found = _character(data, place, classes)
        kind = found >> 3
        if kind == 5:
            return np.int64(-1)
        if kind != 3 and kind != 4:
            return last if last > start else place
        last = place
        place += found & 7
    return place


@njit("int64(uint8[::1], int64, int64, uint8[::1])", cache=True, nogil=True)
def _last_newline(data, place, end, classes):  # type: ignore[no-untyped-def]
    r"""``\s*[\r\n]+``: its end, 0 if it does not match."""
    after = np.int64(0)
    while place < end:
        found = _character(data, place, classes)
        kind = found >> 3
        if kind != 3 and kind != 4:
            break
        place += found & 7
        if kind == 4:
            after = place
    return after


@njit("int64(uint8[::1], int64, int64, uint8[::1], int64)", cache=True, nogil=True)
def _piece_gpt2(data, place, end, classes, digits):  # type: ignore[no-untyped-def]
    """End of GPT-2's piece at ``place``; -1 for an unsure character."""
    if data[place] == 39:
        size = _contraction(data, place, end, False)
        if size > 0:
            return place + size
    body = place + 1 if data[place] == 32 and place + 1 < end else place
    kind = _character(data, body, classes) >> 3
    if kind == 5:
        return np.int64(-1)
    if kind <= 2:
        return _run_end(data, body, end, classes, kind)
    return _space_end(data, place, end, classes)


@njit("int64(uint8[::1], int64, int64, uint8[::1], int64)", cache=True, nogil=True)
def _piece_cl100k(data, place, end, classes, digits):  # type: ignore[no-untyped-def]
    """End of the piece in Qwen's and Llama 3's expressions, which take up to ``digits`` digits at once."""
    if data[place] == 39:
        size = _contraction(data, place, end, True)
        if size != 0:
            return place + size if size > 0 else np.int64(-1)
    found = _character(data, place, classes)
    kind, after = found >> 3, place + (found & 7)
    if kind == 5:
        return np.int64(-1)
    if kind == 1:
        return _run_end(data, after, end, classes, 1)
    if kind == 2:
        for _ in range(1, digits):
            if after >= end:
                break
            found = _character(data, after, classes)
            if found >> 3 != 2:
                break
            after += found & 7
        return after
    following = _character(data, after, classes) >> 3 if after < end else np.int64(3)
    if following == 5:
        return np.int64(-1)
    if kind != 4 and following == 1:
        return _run_end(data, after, end, classes, 1)
    if kind == 0 or (data[place] == 32 and following == 0):
        after = _run_end(data, after, end, classes, 0)
        while 0 <= after < end and (data[after] == 10 or data[after] == 13):
            after += 1
        return after
    newline = _last_newline(data, place, end, classes)
    return newline if newline > 0 else _space_end(data, place, end, classes)


@njit(cache=True, nogil=True)
def _added_at(data, place, end, added, added_offsets):  # type: ignore[no-untyped-def]
    """Number of the first added token (they come longest first) at ``place``, or -1."""
    for number in range(len(added_offsets) - 1):
        start, stop = added_offsets[number], added_offsets[number + 1]
        if place + stop - start <= end:
            same = True
            for shift in range(stop - start):
                if data[place + shift] != added[start + shift]:
                    same = False
                    break
            if same:
                return number
    return -1


@njit("uint64(uint8[::1], int64, int64)", cache=True, nogil=True)
def _hash_of(data, start, end):  # type: ignore[no-untyped-def]
    key = np.uint64(0xCBF29CE484222325)
    for place in range(start, end):
        key = (key ^ np.uint64(data[place])) * np.uint64(0x100000001B3)
    return _mixed(key)


@njit(cache=True, nogil=True)
def _remember(data, start, end, hashed, ids, widths, count, slots, texts, stored, used):  # type: ignore[no-untyped-def]
    """Cache a piece's tokens if there is room; see ``encode`` for the tables."""
    length = end - start
    if used[0] * 2 > len(slots) or used[1] + length > len(texts) or used[2] + count > len(stored):
        return
    mask = np.uint64(len(slots) - 1)
    slot = hashed & mask
    while slots[slot, 3] != 0:
        slot = (slot + np.uint64(1)) & mask
    texts[used[1] : used[1] + length] = data[start:end]
    for place in range(count):
        stored[used[2] + place, 0] = ids[place]
        stored[used[2] + place, 1] = widths[place]
    slots[slot, 0] = np.int64(hashed)
    slots[slot, 1] = used[1]
    slots[slot, 2] = used[2]
    slots[slot, 3] = (length << 32) | count
    used[0] += 1
    used[1] += length
    used[2] += count


@njit(cache=True, nogil=True)
def remember_words(data, offsets, tokens, slots, texts, stored, used):  # type: ignore[no-untyped-def]
    """Cache words that are one token regardless of the merges."""
    own = np.empty(1, np.int32)
    width = np.empty(1, np.int32)
    for word in range(len(tokens)):
        start, end = offsets[word], offsets[word + 1]
        own[0], width[0] = tokens[word], end - start
        _remember(data, start, end, _hash_of(data, start, end), own, width, 1, slots, texts, stored, used)


@njit(cache=True, nogil=True)
def encode(  # type: ignore[no-untyped-def]
    data,
    starts,
    stops,
    classes,
    style,
    digits,
    byte_ids,
    keys,
    values,
    added,
    added_offsets,
    added_ids,
    heads,
    slots,
    texts,
    stored,
    used,
    ids,
    ends,
    counts,
):
    """Encode the texts ``data[starts[i]:stops[i]]`` into ``ids`` and the tokens' last bytes ``ends``.

    ``counts[i]`` is the number of tokens of text ``i``, or -1, with no tokens, if it has an unsure character or too
    long a piece. Returns the number of tokens.

    Known pieces are cached in an open hash table, ``slots`` int64 [2 ** n, 4]: hash, offset in ``texts``, offset in
    ``stored`` (ids and bytes of tokens), and ``bytes << 32 | tokens``; ``used`` has the used size of each.
    """
    total = 0
    mask = np.uint64(len(slots) - 1)
    own_ids = np.empty(LONGEST_PIECE, np.int32)
    widths = np.empty(LONGEST_PIECE, np.int32)
    ranks = np.empty(LONGEST_PIECE, np.int32)
    for text in range(len(starts)):
        first, place, stop = total, starts[text], stops[text]
        while place < stop:
            end, token = stop, -1
            if len(added_ids) > 0:
                for at in range(place, stop):
                    if heads[data[at]]:
                        token = _added_at(data, at, stop, added, added_offsets)
                        if token >= 0:
                            end = at
                            break
            while place < end:
                if style == 0:
                    after = _piece_gpt2(data, place, end, classes, digits)
                else:
                    after = _piece_cl100k(data, place, end, classes, digits)
                length = after - place
                if after < 0 or length > LONGEST_PIECE:
                    place = -1
                    break
                hashed = _hash_of(data, place, after)
                slot = hashed & mask
                found = False
                while slots[slot, 3] != 0:
                    if np.uint64(slots[slot, 0]) == hashed and slots[slot, 3] >> 32 == length:
                        found = True
                        for shift in range(length):
                            if texts[slots[slot, 1] + shift] != data[place + shift]:
                                found = False
                                break
                        if found:
                            break
                    slot = (slot + np.uint64(1)) & mask
                if found:
                    where = slots[slot, 2]
                    for number in range(where, where + (slots[slot, 3] & 0xFFFFFFFF)):
                        ids[total] = stored[number, 0]
                        place += stored[number, 1]
                        ends[total] = place
                        total += 1
                else:
                    count = _merge(data, place, after, byte_ids, keys, values, own_ids, widths, ranks)
                    _remember(data, place, after, hashed, own_ids, widths, count, slots, texts, stored, used)
                    for number in range(count):
                        ids[total] = own_ids[number]
                        place += widths[number]
                        ends[total] = place
                        total += 1
            if place < 0:
                break
            if token >= 0:
                place = end + added_offsets[token + 1] - added_offsets[token]
                ids[total] = added_ids[token]
                ends[total] = place
                total += 1
        if place < 0:
            total = first
            counts[text] = -1
        else:
            counts[text] = total - first
    return total


def character_classes() -> NDArray[np.uint8]:
    """Class of each character that Python's Unicode knows below its rarest planes; all others are unsure."""
    import unicodedata

    kinds = {"L": LETTER, "N": NUMBER}
    found = np.array(
        [
            UNSURE if (category := unicodedata.category(chr(code))) == "Cn" else kinds.get(category[0], OTHER)
            for code in range(0x32400)
        ],
        np.uint8,
    )
    # Unicode's property White_Space.
    spaces = [9, 11, 12, 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
    found[spaces] = SPACE
    found[[10, 13]] = NEWLINE
    return found
