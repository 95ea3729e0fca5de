"""How characters are read when texts are compared: one table for test items, the own holdout and near-duplicates.

Both texts of a comparison are folded, and neither is stored. So a character may be folded onto another one wherever a
reader takes them for the same, though a language tells them apart:

* Lower case; compatibility forms (full-width, mathematical bold, ligatures, circled, half-width); no accents, but for
  near-duplicates.
* Characters that look like an ASCII letter or digit are that one (the skeletons of UTS #39), and ``i``, ``l`` and ``1``
  are one letter, as are ``o`` and ``0``: in some case and script each looks like the other.
* Invisible characters and accents vanish: zero-width, soft hyphens, marks of direction, variation selectors.
* All other signs only separate words; some of them end a line, a sentence or a label.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import numpy as np

CONFUSABLES = Path(__file__).with_name("confusables.txt")

SPACE, BREAK, LINE, VANISH = 0, 1, 2, 3
"""The table's entries for characters that are not part of a word: they separate words, end a sentence or a line, or
vanish."""
SEVERAL = 1 << 30
"""Marks a character read as two or three ASCII letters, the first in the lowest seven bits."""
END = 0x20000
"""The table's size: planes 0 and 1. Characters above it are Han; from MARKS on they vanish."""
MARKS = 0xE0000

ASCII_SIGNS = "#$%&+/<=>@\\^"
_BREAKS = '.?!:;()|"“”„«»…。｡．？！：；（）｜＂'
_LINES = "\n\u2028\u2029"
# Separators beyond ASCII: Latin-1 signs, general punctuation to mathematical and other symbols, CJK punctuation,
# presentation forms of punctuation, full-width ASCII punctuation, specials, emoji and other pictures.
_SEPARATORS = (
    (0x80, 0xA9), (0xAB, 0xB1), (0xB4, 0xB4), (0xB6, 0xB8), (0xBB, 0xBF), (0xD7, 0xD7), (0xF7, 0xF7),
    (0x37E, 0x37E), (0x387, 0x387), (0x55A, 0x55F), (0x589, 0x58A), (0x5BE, 0x5BE), (0x5C0, 0x5C0), (0x5F3, 0x5F4),
    (0x60C, 0x60D), (0x61B, 0x61F), (0x66A, 0x66D), (0x6D4, 0x6D4), (0x964, 0x965), (0x166E, 0x166E), (0x1680, 0x1680),
    (0x2000, 0x206F), (0x20A0, 0x20CF), (0x2190, 0x245F), (0x2500, 0x2BFF), (0x2E00, 0x2E7F), (0x3000, 0x3004),
    (0x3008, 0x3020), (0x3030, 0x3030), (0x30FB, 0x30FB), (0xFD3E, 0xFD3F), (0xFE10, 0xFE6F),
    (0xFF00, 0xFF0F), (0xFF1A, 0xFF20), (0xFF3B, 0xFF40), (0xFF5B, 0xFF65), (0xFFE0, 0xFFFF), (0x1F000, 0x1FFFF),
)  # fmt: skip
# Combining marks that decorate any letter, and the points of Hebrew and Arabic; selectors and other invisible ones.
# Vowel signs of other scripts are not among them: they make other words.
_VANISHING = (
    (0xAD, 0xAD), (0x300, 0x36F), (0x483, 0x489), (0x591, 0x5BD), (0x5BF, 0x5BF), (0x5C1, 0x5C2), (0x5C4, 0x5C5),
    (0x5C7, 0x5C7), (0x610, 0x61A), (0x61C, 0x61C), (0x640, 0x640), (0x64B, 0x65F), (0x670, 0x670), (0x6D6, 0x6ED),
    (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x200B, 0x200F),
    (0x202A, 0x202E), (0x2060, 0x206F), (0x20D0, 0x20FF), (0x2800, 0x2800), (0x3164, 0x3164), (0xFE00, 0xFE0F),
    (0xFE20, 0xFE2F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF9, 0xFFFB), (0x1D167, 0x1D169), (0x1D173, 0x1D182),
)  # fmt: skip
# Scripts without case, compatibility forms or look-alikes; looking at each character would take a second.
_PLAIN = ((0x3400, 0xA000), (0xAC00, 0xD7A4), (0xD800, 0xF900), (0x17000, 0x1AFF0))
_SAME = str.maketrans("i10", "llo")
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789", np.uint8)


@cache
def sign_table() -> np.ndarray:
    """``letter_table``, in which signs that mean something are themselves: of mathematics, currencies, pictures.

    Letters keep their accents: rows that differ only in those, as Vietnamese words may, are not copies.
    """
    table, alike = letter_table().copy(), _confusables()
    for code in np.flatnonzero(table != np.arange(END)).tolist():
        letter = unicodedata.normalize("NFKC", chr(code).casefold()) if code >= 0x80 and chr(code) not in alike else ""
        if len(letter) == 1 and letter.isalpha() and len(unicodedata.normalize("NFD", letter)) > 1:
            table[code] = ord(letter)
    for code in np.flatnonzero(table <= BREAK).tolist():
        sign = chr(code)
        if sign in ASCII_SIGNS if sign.isascii() else unicodedata.category(sign) in ("Sm", "Sc", "So"):
            table[code] = code
    table.setflags(write=False)
    return table


@cache
def letter_table() -> np.ndarray:
    """uint32 [END]: SPACE, BREAK, LINE or VANISH, the code point that each is read as, or SEVERAL with ASCII."""
    table = np.arange(END, dtype=np.uint32)
    alike = _confusables()
    for code in _looked_at():
        table[code] = _read_as(chr(code), alike)
    for ranges, meaning in ((_SEPARATORS, SPACE), (_VANISHING, VANISH)):
        for start, end in ranges:
            # Symbols that look like letters are read as those.
            which = table[start : end + 1]
            which[~np.isin(which, _LETTERS) | (meaning == VANISH)] = meaning
    for characters, meaning in ((_BREAKS, BREAK), (_LINES, LINE)):
        table[[ord(character) for character in characters]] = meaning
    table.setflags(write=False)
    return table


def _looked_at() -> Iterator[int]:
    start = 0
    for end, after in (*_PLAIN, (END, END)):
        yield from range(start, end)
        start = after


def _read_as(character: str, alike: Mapping[str, str]) -> int:
    if character.isascii():
        return ord(character.lower().translate(_SAME)) if character.isalnum() else SPACE
    if character in alike:
        return ord(alike[character])
    if unicodedata.category(character) in ("Cn", "Cc"):
        return ord(character)
    found = _plain(character)
    # A letter is read like its other case, so that a text in capitals stays the same text.
    found = alike.get(found) or alike.get(found.upper()) or found
    if len(found) == 1:
        return ord(found)
    if 2 <= len(found) <= min(3, len(character.encode())) and found.isascii() and found.isalnum():
        return SEVERAL | sum(ord(letter) << (7 * place) for place, letter in enumerate(found))
    return ord(character)


def _plain(character: str) -> str:
    """``character`` in lower case, without compatibility form and accents; ASCII letters that look alike become one."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
    kept = "".join(letter for letter in folded if not 0x300 <= ord(letter) <= 0x36F)
    return unicodedata.normalize("NFC", kept).replace("æ", "ae").replace("œ", "oe").translate(_SAME)


def _confusables() -> dict[str, str]:
    """The ASCII letter or digit that each character looks like."""
    found = {}
    for line in CONFUSABLES.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            letter, *codes = line.split(" ")
            found.update(dict.fromkeys((chr(int(code, 16)) for code in codes), letter.translate(_SAME)))
    return found
