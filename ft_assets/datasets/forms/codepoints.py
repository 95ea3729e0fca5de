"""What the fast path must know about each code point, from Python's own Unicode tables."""

import sys
import unicodedata
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ft_assets.datasets.forms.scanner import LEAVE, PLAIN, UNSEEN
from ft_assets.datasets.forms.texts import is_blank

# Hangul vowels and final consonants compose with what is before them, by a rule and not by a table.
_JAMO = (range(0x1161, 0x1176), range(0x11A8, 0x11C3))
# Nothing above has a combining class or a canonical decomposition, by Unicode's allocation of planes.
_END = 0x32000


@lru_cache(maxsize=1)
def point_table() -> NDArray[np.uint8]:
    """For each code point, uint8: its canonical combining class (0 is PLAIN), or UNSEEN, or LEAVE.

    A text is in NFC (https://unicode.org/reports/tr15/#Detecting_Normalization_Forms) where classes other than 0 do not
    fall within a run, and no character is one that is changed, or that may compose with one before it: those are LEAVE.
    """
    table = np.full(sys.maxunicode + 1, PLAIN, np.uint8)
    composing = {point for jamo in _JAMO for point in jamo}
    for point in range(0x80, _END):
        if 0xD800 <= point < 0xE000 or 0xAC00 <= point < 0xD7A4 or 0x3400 <= point < 0xA000:
            continue
        character = chr(point)
        table[point] = min(unicodedata.combining(character), LEAVE)
        if table[point] == PLAIN and is_blank(character):
            table[point] = UNSEEN
        decomposition = unicodedata.decomposition(character)
        if not unicodedata.is_normalized("NFC", character):
            table[point] = LEAVE
        elif decomposition and not decomposition.startswith("<"):
            composing.add(int(decomposition.split()[-1], 16))
    table[sorted(composing)] = LEAVE
    return table
