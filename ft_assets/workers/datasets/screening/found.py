"""What screening gives back, and which finding holds where several overlap."""

from bisect import bisect
from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

# First wins where two findings overlap. A secret's extent is certain by its form; an e-mail address may hold any other
# number; an IBAN holds digits that can pass for a card; what is a card or an IP address is no phone number.
PRIORITY = ("secret", "email", "iban", "card", "ip", "phone")
_RANK = {name: rank for rank, name in enumerate(PRIORITY)}

# No quotes, backslashes or control characters: they stand in JSON strings as they are.
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
overlaps. The value found is in no column, so that a report made of findings cannot leak it."""


class Span(NamedTuple):
    """``type`` at bytes ``start`` to ``end`` (not included) of one text's UTF-8."""

    start: int
    end: int
    type: str


class Screened(NamedTuple):
    """``texts``: the given array itself where nothing was replaced. ``findings``: see ``FINDINGS``."""

    texts: pa.StringArray
    findings: pa.RecordBatch


def without_overlaps(spans: Iterable[Span]) -> list[Span]:
    """``spans`` by position, without those that overlap one of higher priority (of equals: a longer one)."""
    kept: list[Span] = []
    for span in sorted(spans, key=_strength):
        at = bisect(kept, span)
        if (at == 0 or kept[at - 1].end <= span.start) and (at == len(kept) or span.end <= kept[at].start):
            kept.insert(at, span)
    return kept


def _strength(span: Span) -> tuple[int, int, int]:
    """Sorts the strongest first."""
    return _RANK[span.type], span.start - span.end, span.start
