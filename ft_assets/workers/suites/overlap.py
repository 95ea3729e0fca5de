"""Whether two sets of evaluation items share some, by the text that distinguishes an item within its suite.

Whole texts are compared, in lower case and with single spaces. Rephrased questions are not found, nor those that
another suite splits into columns differently.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

# A text in more than one of this many items is an instruction or a subject's name, and identifies no item.
_COMMON = 10


def shared_items(items: Sequence[Sequence[str]], others: Iterable[str]) -> list[int]:
    """The 1-based numbers of the ``items`` (the texts of each) that also occur among the texts ``others``."""
    known = {_plain(text) for text in others}
    return [number for number, mark in enumerate(_marks(items), start=1) if mark and mark in known]


def all_texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from all_texts(item)


def _marks(items: Sequence[Sequence[str]]) -> Iterator[str]:
    """For each item, the longest text that few others have; "" if there is none."""
    plain = [{_plain(text) for text in texts} for texts in items]
    counts = Counter(text for texts in plain for text in texts)
    most = max(1, len(items) // _COMMON)
    for texts in plain:
        yield max((text for text in texts if counts[text] <= most), key=lambda text: (len(text), text), default="")


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
