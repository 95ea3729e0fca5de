"""Characters that hide numbers and addresses from patterns: other scripts' digits, invisible ones, odd separators.

Folding is for recognition only; the stored text keeps its characters. ``1２3`` is read as ``123``,
``4<zero width space>1`` as ``41``, and findings are given in positions of the original text.
"""

import unicodedata

import numpy as np
import numpy.typing as npt

_INVISIBLE = (0xAD, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2060, 0x2061, 0x2062, 0x2063, 0x2064, 0xFEFF)
_SPACES = (0xA0, *range(0x2000, 0x200B), 0x202F)
_HYPHENS = (*range(0x2010, 0x2016), 0x2212, 0xFF0D)

# All decimal digits are in planes 0 and 1.
_END = 0x20000
# A code point missing from the table is unchanged; deleted ones map to None.
_FOLDED: dict[int, str | None] = {
    **{code: str(unicodedata.decimal(chr(code))) for code in range(0x80, _END) if chr(code).isdecimal()},
    **dict.fromkeys(_SPACES, " "),
    **dict.fromkeys(_HYPHENS, "-"),
    **dict.fromkeys(_INVISIBLE, None),
    # Full-width forms of characters in addresses and numbers: @ . + ( ) : / _ and Latin letters.
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F) if chr(code - 0xFEE0) in "@.+():/_"},
    **{code: chr(code - 0xFEE0) for code in range(0xFF21, 0xFF5B) if chr(code - 0xFEE0).isalpha()},
}


def fold(text: str) -> tuple[str, npt.NDArray[np.int64] | None]:
    """The folded ``text``, and for each of its code points the position in ``text`` (None: the same)."""
    folded = text.translate(_FOLDED)
    if len(folded) == len(text):
        return folded, None
    invisible = set(map(chr, _INVISIBLE))
    return folded, np.flatnonzero(np.fromiter((letter not in invisible for letter in text), np.bool_, len(text)))
