"""What the fast path must know about each code point, from Python's own Unicode tables."""

import sys
import unicodedata
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from ft_assets.datasets.forms.scanner import LEAVE, PLAIN, UNSEEN
from ft_assets.datasets.forms.texts import without_visible

# Hangul vowels and final consonants compose with what is before them, by a rule and not by a table.
_JAMO = (range(0x1161, 0x1176), range(0x11A8, 0x11C3))
# Nothing above has a combining class or a canonical decomposition, by Unicode's allocation of planes.
_END = 0x32000
# Surrogates, Hangul syllables and Han have neither.
_LEFT_OUT = ((0xD800, 0xE000), (0xAC00, 0xD7A4), (0x3400, 0xA000))


@lru_cache(maxsize=1)
def point_table() -> NDArray[np.uint8]:
    """For each code point, uint8: its canonical combining class (0 is PLAIN), or UNSEEN, or LEAVE.

    A text is in NFC (https://unicode.org/reports/tr15/#Detecting_Normalization_Forms) where classes other than 0 do not
    fall within a run, and no character is one that is changed, or that may compose with one before it: those are LEAVE.
    """
    points = np.arange(0x80, _END, dtype="<u4")
    for start, end in _LEFT_OUT:
        points = points[(points < start) | (points >= end)]
    characters = points.tobytes().decode("utf-32-le")
    table = np.full(sys.maxunicode + 1, PLAIN, np.uint8)
    table[points] = np.minimum(np.fromiter(map(unicodedata.combining, characters), np.uint8), LEAVE)
    unseen = [ord(character) for character in without_visible(characters) if not unicodedata.combining(character)]
    table[unseen] = UNSEEN
    stable = np.fromiter(map(partial(unicodedata.is_normalized, "NFC"), characters), np.bool_)
    decompositions = zip(stable.tolist(), map(unicodedata.decomposition, characters), strict=True)
    seconds = {int(parts.split()[-1], 16) for same, parts in decompositions if same and parts and parts[0] != "<"}
    table[points[~stable]] = LEAVE
    table[sorted(seconds.union(*_JAMO))] = LEAVE
    return table
