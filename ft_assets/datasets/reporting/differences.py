"""Two texts side by side with their differences marked."""

import re
from difflib import SequenceMatcher

from markupsafe import Markup, escape

# Texts are cut to this many characters around their first difference: the page holds many of them.
SHOWN = 600
_BEFORE = 160
_PIECES = re.compile(r"\w+|\s+|[^\w\s]")


def mark_differences(text: str, other: str) -> tuple[Markup, Markup]:
    """Both texts as HTML, escaped, what only one of them has in ``<mark>``; long ones are cut around the first
    difference."""
    start = max(0, _common_start(text, other) - _BEFORE)
    if max(len(text), len(other)) <= SHOWN:
        start = 0
    left, right = _PIECES.findall(text[start : start + SHOWN]), _PIECES.findall(other[start : start + SHOWN])
    here, there = [], []
    for tag, low, high, other_low, other_high in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        here.append(_piece("".join(left[low:high]), marked=tag != "equal"))
        there.append(_piece("".join(right[other_low:other_high]), marked=tag != "equal"))
    return _framed(here, text, start), _framed(there, other, start)


def cut(text: str) -> str:
    """The beginning of ``text``, with an ellipsis where there is more."""
    return text if len(text) <= SHOWN else text[:SHOWN] + " …"


def _common_start(text: str, other: str) -> int:
    for index, (one, two) in enumerate(zip(text, other, strict=False)):
        if one != two:
            return index
    return min(len(text), len(other))


def _piece(text: str, *, marked: bool) -> Markup:
    return Markup("<mark>{}</mark>").format(text) if marked and text else escape(text)


def _framed(pieces: list[Markup], text: str, start: int) -> Markup:
    before = "… " if start else ""
    after = " …" if start + SHOWN < len(text) else ""
    return escape(before) + Markup("").join(pieces) + escape(after)
