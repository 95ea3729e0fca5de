"""Keys and tokens that are recognised by their own form (see ``rules``)."""

import math
import re
from collections import Counter
from collections.abc import Iterator

from ft_assets.workers.datasets.screening.boundaries import START, starts_word
from ft_assets.workers.datasets.screening.found import Span
from ft_assets.workers.datasets.screening.rules import FORMS, KEYWORD_LENGTH, Form

_BY_BEGINNING: dict[bytes, list[tuple[bytes, Form]]] = {}
for _form in FORMS:
    for _keyword in _form.keywords:
        _BY_BEGINNING.setdefault(_keyword[:KEYWORD_LENGTH], []).append((_keyword, _form))

# One search for all forms without a fixed beginning.
_SHAPES = {f"form_{number}": form for number, form in enumerate(FORMS) if not form.keywords}
_SHAPED = re.compile(
    START
    + rb"(?:"
    + b"|".join(
        b"(?P<%s>%s)" % (name.encode(), form.pattern.pattern.replace(b"(?P<value>", b"(?:"))
        for name, form in _SHAPES.items()
    )
    + rb")"
)
# Some begin with a number and a colon, before the run.
_BEFORE_RUN = 24


def find_token(raw: bytes, start: int, end: int) -> Iterator[Span]:
    """The secret of a form with a fixed beginning at ``start``: the longest, if it is random enough."""
    best = start
    for keyword, form in _BY_BEGINNING.get(raw[start : start + KEYWORD_LENGTH], ()):
        if raw.startswith(keyword, start) and (match := form.pattern.match(raw, start)):
            low, high = match.span("value")
            if high > best and entropy(raw[low:high]) >= form.entropy:
                best, begin = high, low
    if best > start and starts_word(raw, start):
        yield Span(begin, best, "secret")


def find_in_run(raw: bytes, start: int, end: int) -> Iterator[Span]:
    """Secrets of forms without a fixed beginning in the run of token characters ``raw[start:end]``."""
    for match in _SHAPED.finditer(raw, max(0, start - _BEFORE_RUN), end):
        name = match.lastgroup or ""
        if entropy(match.group(name)) >= _SHAPES[name].entropy:
            yield Span(*match.span(name), "secret")


def entropy(value: bytes) -> float:
    """Shannon entropy of the bytes' frequencies, bits per byte."""
    total = len(value)
    return -sum(count / total * math.log2(count / total) for count in Counter(value).values())
