"""The result of screening, and which finding wins if several overlap."""

from bisect import bisect
from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

# If two findings overlap, the first type here wins. A secret's extent is certain by its form; an e-mail address may
# contain any other number; an IBAN contains digits that can pass for a card; a card, an IP address or a national number
# is not a phone number. What a language model takes for a name or a place is the least certain.
PRIORITY = ("secret", "email", "iban", "card", "ip", "id", "phone", "name", "place")
_RANK = {name: rank for rank, name in enumerate(PRIORITY)}

# No quotes, backslashes or control characters, so that they need no escape in JSON strings.
PLACEHOLDERS = {name: f"<{name.upper()}>" for name in PRIORITY}

FINDINGS = pa.schema(
    [
        pa.field("index", pa.int32(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("start", pa.int32(), nullable=False),
        pa.field("end", pa.int32(), nullable=False),
    ]
)
"""``index`` of the text, and where in it: code points, ``end`` not included. Sorted by index and start, without
overlaps. No column holds the found value, so that a report made from findings cannot leak it."""


class Span(NamedTuple):
    """``type`` at bytes ``start`` to ``end`` (not included) of one text's UTF-8."""

    start: int
    end: int
    type: str


class Screened(NamedTuple):
    """``texts``: the given array itself if nothing was replaced. ``findings``: see ``FINDINGS``."""

    texts: pa.StringArray
    findings: pa.RecordBatch


def without_overlaps(spans: Iterable[Span]) -> list[Span]:
    """``spans`` by position, without those that overlap one of higher priority (or a longer one of equal priority)."""
    kept: list[Span] = []
    for span in sorted(spans, key=_strength):
        at = bisect(kept, span)
        if (at == 0 or kept[at - 1].end <= span.start) and (at == len(kept) or span.end <= kept[at].start):
            kept.insert(at, span)
    return kept


def _strength(span: Span) -> tuple[int, int, int]:
    """Sorts the strongest first."""
    return _RANK[span.type], span.start - span.end, span.start
