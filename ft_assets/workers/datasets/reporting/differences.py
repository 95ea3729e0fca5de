"""Texts as the page shows them: shortened, or two side by side with their differences or common parts marked."""

import re
from difflib import SequenceMatcher

from markupsafe import Markup, escape

# Texts are cut to this many characters around their first difference, as the page holds many of them.
SHOWN = 600
_BEFORE = 160
# Any two texts share some words.
_SHARED = 12
_PIECES = re.compile(r"\w+|\s+|[^\w\s]")


def mark_differences(text: str, other: str, *, shared: bool = False) -> tuple[Markup, Markup]:
    """Both texts as escaped HTML, with what only one of them has in ``<mark>`` (``shared``: what both have).

    Long texts are cut around the first difference (``shared``: to their beginning).
    """
    start = max(0, _common_start(text, other) - _BEFORE)
    if shared or max(len(text), len(other)) <= SHOWN:
        start = 0
    left, right = _PIECES.findall(text[start : start + SHOWN]), _PIECES.findall(other[start : start + SHOWN])
    here, there = [], []
    for tag, low, high, other_low, other_high in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        one, two = "".join(left[low:high]), "".join(right[other_low:other_high])
        marked = tag == "equal" and len(one) >= _SHARED if shared else tag != "equal"
        here.append(_piece(one, marked=marked))
        there.append(_piece(two, marked=marked))
    return _framed(here, text, start), _framed(there, other, start)


def cut(text: str) -> str:
    """The beginning of ``text``, with an ellipsis if it is cut."""
    return text if len(text) <= SHOWN else text[:SHOWN] + " …"


def cut_middle(text: str) -> str:
    """The beginning and the end of ``text``, with an ellipsis for the part between them."""
    return text if len(text) <= SHOWN else f"{text[: SHOWN // 2]} … {text[-SHOWN // 2 :]}"


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
