"""Markup in texts: tags and comments of HTML, entities, addresses in links of Markdown."""

import numpy as np
from numba import njit, uint64

_MOST_TAG, _MOST_LINK, _MOST_ENTITY = 400, 400, 10
_SHIFTED = np.uint64(31)


def _named(names: str) -> np.ndarray:
    """The names' hashes, as ``tag`` makes them."""
    found = []
    for name in names.split():
        value = 0
        for letter in name:
            value = (value * int(_SHIFTED) + ord(letter)) % (1 << 64)
        found.append(value)
    return np.array(found, np.uint64)


_INLINE = _named(
    "a abbr b bdi bdo big cite code del dfn em font i ins kbd mark q s samp small span strike strong sub sup tt u var"
    " wbr"
)
_BLOCK = _named(
    "article aside blockquote body br button caption center col dd details div dl dt fieldset figcaption figure footer"
    " form h1 h2 h3 h4 h5 h6 head header hr html img input label legend li main nav ol option p pre section select"
    " summary svg table tbody td textarea tfoot th thead title tr ul"
)


@njit(nogil=True)
def _lower(byte):  # type: ignore[no-untyped-def]
    return byte | np.uint8(0x20) if np.uint8(65) <= byte <= np.uint8(90) else byte


@njit(nogil=True)
def tag(data, at, end):  # type: ignore[no-untyped-def]
    """(end of the tag or comment that starts at ``at``, whether it breaks); the end is 0 for none.

    "a <b and c> d" holds no tag: only attributes with a value may follow a tag's name.
    """
    place = at + 1
    if place + 2 < end and data[place] == 33 and data[place + 1] == 45 and data[place + 2] == 45:
        for index in range(place + 3, end - 2):
            if data[index] == 45 and data[index + 1] == 45 and data[index + 2] == 62:
                return index + 3, False
        return 0, False
    if place < end and data[place] == 47:
        place += 1
    name = uint64(0)
    while place < end:
        byte = _lower(data[place])
        if not (np.uint8(97) <= byte <= np.uint8(122) or np.uint8(48) <= byte <= np.uint8(57)):
            break
        name = name * uint64(_SHIFTED) + uint64(byte)
        place += 1
    inline, block = False, False
    for each in _INLINE:
        inline |= each == name
    for each in _BLOCK:
        block |= each == name
    if not (inline or block):
        return 0, False
    named, valued = place, False
    while place < min(end, at + _MOST_TAG) and data[place] != 62:
        if data[place] == 60:
            return 0, False
        valued |= data[place] == 61
        place += 1
    if place >= min(end, at + _MOST_TAG):
        return 0, False
    for index in range(named, place):
        # "<br />" has no value either.
        if not valued and data[index] != 32 and data[index] != 47:
            return 0, False
    return place + 1, block


@njit(nogil=True)
def entity(data, at, end):  # type: ignore[no-untyped-def]
    """(end of the entity that starts at ``at``, its code point or 0 for a named one); the end is 0 for none."""
    place = at + 1
    most = min(end, at + _MOST_ENTITY)
    if place < most and data[place] == 35:
        place += 1
        hexadecimal = place < most and _lower(data[place]) == 120
        place += 1 if hexadecimal else 0
        first, code = place, 0
        while place < most and data[place] != 59:
            byte = np.int64(_lower(data[place]))
            if 48 <= byte <= 57:
                digit = byte - 48
            elif hexadecimal and 97 <= byte <= 102:
                digit = byte - 87
            else:
                return 0, 0
            code = code * (16 if hexadecimal else 10) + digit
            place += 1
        if place >= most or place == first or not 0 < code < 0x110000 or 0xD800 <= code < 0xE000:
            return 0, 0
        return place + 1, code
    while place < most and np.uint8(97) <= _lower(data[place]) <= np.uint8(122):
        place += 1
    if at + 2 < place < most and data[place] == 59:
        return place + 1, 0
    return 0, 0


@njit(nogil=True)
def link(data, at, end):  # type: ignore[no-untyped-def]
    """The end of the address in a link of Markdown whose words end at ``at``, 0 for none."""
    if at + 1 >= end or data[at + 1] != 40:
        return 0
    for place in range(at + 2, min(end, at + _MOST_LINK)):
        if data[place] == 41:
            return place + 1
        if data[place] <= 32:
            return 0
    return 0
