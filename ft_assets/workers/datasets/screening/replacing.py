"""Replaces findings with placeholders; JSON stays JSON."""

import re

from ft_assets.workers.datasets.screening.boundaries import is_json
from ft_assets.workers.datasets.screening.found import PLACEHOLDERS, Span

_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


def replace(raw: bytes, spans: list[Span]) -> bytes:
    """``raw`` with the placeholder of its type for each of ``spans`` (sorted, without overlaps).

    If ``raw`` is JSON and a span is a bare number in it, the number becomes a string: ``{"card": "<CARD>"}``.
    """
    plain = _put(raw, [(span.start, span.end, PLACEHOLDERS[span.type].encode()) for span in spans])
    if not is_json(raw) or is_json(plain):
        return plain
    strings = [match.span() for match in _STRING.finditer(raw)]
    edits, at = [], 0
    for start, end, kind in spans:
        while at < len(strings) and strings[at][1] <= start:
            at += 1
        placeholder = PLACEHOLDERS[kind].encode()
        if at < len(strings) and strings[at][0] < start:
            edits.append((start, end, placeholder))
        else:
            low = start - 1 if raw[start - 1 : start] == b"-" else start
            number = _NUMBER.match(raw, low)
            edits.append((low, max(end, number.end()) if number else end, b'"%s"' % placeholder))
    return _put(raw, edits)


def _put(raw: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    pieces, at = [], 0
    for start, end, new in edits:
        pieces += [raw[at:start], new]
        at = end
    return b"".join([*pieces, raw[at:]])
