"""Whether two sets of evaluation items share some: by the text that tells an item from the others of its suite.

Compared are texts as wholes, without capitals and with single blanks: the same question in other words is not found,
nor is one whose text another layout puts together differently.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

# A text of more items than one of so many is an instruction or the name of a subject, and tells no item from others.
_COMMON = 10


def shared_items(items: Sequence[Sequence[str]], others: Iterable[str]) -> list[int]:
    """The numbers, from 1, of those of ``items`` (the texts of each) that stand among the texts ``others`` too."""
    known = {_plain(text) for text in others}
    return [number for number, mark in enumerate(_marks(items), start=1) if mark and mark in known]


def all_texts(value: Any) -> Iterator[str]:
    """Every text in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from all_texts(item)


def _marks(items: Sequence[Sequence[str]]) -> Iterator[str]:
    """Of each item the longest text that few others have; "" where there is none."""
    plain = [{_plain(text) for text in texts} for texts in items]
    counts = Counter(text for texts in plain for text in texts)
    most = max(1, len(items) // _COMMON)
    for texts in plain:
        yield max((text for text in texts if counts[text] <= most), key=lambda text: (len(text), text), default="")


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
