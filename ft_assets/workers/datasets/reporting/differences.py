"""Texts as the page shows them: shortened, or two side by side with their differences or common parts marked."""

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

import pyarrow as pa
from markupsafe import Markup, escape

# Texts are cut to this many characters around the part of interest, as the page holds many of them.
SHOWN = 600
_BEFORE = 160
# Any two texts share some words.
_SHARED = 12
# Invisible characters within a word belong to it.
_PIECES = re.compile(r"[\w\u00ad\u200b-\u200f\u2060-\u2064\ufeff]+|[^\w\s]+")
_PLACEHOLDER = re.compile(r"<[A-Z_]{2,20}>")

Span = tuple[int, int]


def mark_differences(text: str, other: str, *, shared: bool = False) -> tuple[Markup, Markup]:
    """Both texts as escaped HTML, with what only one of them has in ``<mark>`` (``shared``: what both have).

    Words are compared as curation compares texts: letter case, markup, invisible characters and letters that look alike
    make no difference. Long texts are cut around the first difference (``shared``: the longest common part).
    """
    (left_spans, left), (right_spans, right) = _words(text), _words(other)
    spans = (left_spans, right_spans)
    begins = _begins(left, right, spans, shared=shared) if max(len(text), len(other)) > SHOWN else (0, 0)
    shown = [
        [index for index, (low, high) in enumerate(found) if begin <= low and high <= begin + SHOWN]
        for found, begin in zip(spans, begins, strict=True)
    ]
    matcher = SequenceMatcher(None, [left[at] for at in shown[0]], [right[at] for at in shown[1]], autojunk=False)
    marks: tuple[list[Span], list[Span]] = ([], [])
    for tag, *bounds in matcher.get_opcodes():
        parts = [
            (found[where[low]][0], found[where[high - 1]][1]) if low < high else None
            for found, where, low, high in zip(spans, shown, bounds[::2], bounds[1::2], strict=True)
        ]
        cut_off = bounds[1] == len(shown[0]) < len(left) or bounds[3] == len(shown[1]) < len(right)
        # If one text is cut before the other, what follows in the other is not a difference.
        wanted = tag == "equal" if shared else tag != "equal" and not (cut_off and any(marks))
        for side, part in zip(marks, parts, strict=True):
            if part and wanted and not (shared and part[1] - part[0] < _SHARED):
                side.append(part)
    return _framed(text, begins[0], marks[0]), _framed(other, begins[1], marks[1])


def same_but_for_looks(text: str, other: str) -> bool:
    """Whether curation takes two different texts for equal (see ``mark_differences``); blanks do not count either."""
    one, two = _bare([text, other])
    return text != other and one == two


def mark_placeholders(text: str) -> Markup:
    """``text`` as escaped HTML, cut around the first placeholder of personal data, with all of them in ``<mark>``."""
    spans = [match.span() for match in _PLACEHOLDER.finditer(text)]
    begin = max(0, spans[0][0] - _BEFORE) if spans and len(text) > SHOWN else 0
    return _framed(text, begin, [(low, high) for low, high in spans if high <= begin + SHOWN])


def cut(text: str) -> str:
    """The beginning of ``text``, with an ellipsis if it is cut."""
    return text if len(text) <= SHOWN else text[:SHOWN] + " …"


def cut_middle(text: str) -> str:
    """The beginning and the end of ``text``, with an ellipsis for the part between them."""
    return text if len(text) <= SHOWN else f"{text[: SHOWN // 2]} … {text[-SHOWN // 2 :]}"


def _bare(texts: Iterable[str]) -> list[str]:
    # Importing it imports numba, which takes a second.
    from ft_assets.workers.datasets.similarity.folded import bare_texts

    found: list[str] = bare_texts(pa.array(list(texts), pa.large_string())).to_pylist()
    return found


def _words(text: str) -> tuple[list[Span], list[str]]:
    """Spans of the words and signs of ``text``, and what is compared of each; without those that are not compared."""
    spans = [match.span() for match in _PIECES.finditer(text)]
    found = [
        (span, bare) for span, bare in zip(spans, _bare(text[slice(*span)] for span in spans), strict=True) if bare
    ]
    return [span for span, _ in found], [bare for _, bare in found]


def _begins(left: Sequence[str], right: Sequence[str], spans: Sequence[Sequence[Span]], *, shared: bool) -> Span:
    """The character from which each text is shown."""
    if shared:
        match = SequenceMatcher(None, left, right, autojunk=False).find_longest_match()
        places = [match.a, match.b]
    else:
        pairs = enumerate(zip(left, right, strict=False))
        least = min(len(left), len(right))
        first = next((at for at, (one, two) in pairs if one != two), least)
        # Without a difference, the beginnings are shown.
        places = [first, first] if first < max(len(left), len(right)) else [0, 0]
    begin, other = (
        max(0, found[min(place, len(found) - 1)][0] - _BEFORE) if found else 0
        for found, place in zip(spans, places, strict=True)
    )
    return begin, other


def _framed(text: str, begin: int, marks: Sequence[Span]) -> Markup:
    """``text`` from ``begin`` on, cut, with ``marks`` marked."""
    end, at, pieces = begin + SHOWN, begin, [escape("… " if begin else "")]
    for low, high in marks:
        pieces += [escape(text[at:low]), Markup("<mark>{}</mark>").format(text[low:high])]
        at = high
    return Markup("").join([*pieces, escape(text[at:end]), escape(" …" if end < len(text) else "")])
