"""Marks in a rendering: noncharacters put around parts of messages show where the template wrote them."""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ft_assets.workers.templates.rendering import Messages, Span
from ft_resources.errors import UserError

# Unicode's noncharacters: never text.
MARKS = [chr(code) for code in range(0xFDD0, 0xFDF0)]
_DIGITS = 4


def free_marks(text: str, count: int) -> list[str]:
    """``count`` marks that ``text`` does not hold; empty if too few are left."""
    free = [mark for mark in MARKS if mark not in text][:count]
    return free if len(free) == count else []


def without_marks(traced: str, pattern: str) -> tuple[str, list[tuple[str, int]]]:
    """``traced`` without the marks that ``pattern`` matches, and each of these with its place in the result."""
    pieces = re.split(f"({pattern})", traced)
    lengths = itertools.accumulate(map(len, pieces[::2]))
    return "".join(pieces[::2]), list(zip(pieces[1::2], lengths, strict=False))


def located(
    render: Callable[[Messages], str], messages: Messages, shown: Mapping[int, str], text: str
) -> dict[int, list[Span]]:
    """Where ``text``, a rendering of ``messages``, shows the ends ``shown`` of some contents, by number of the message.

    Spans are without white space around them. Blank ones, and those that marks around them would change, are missing.
    """
    marks = free_marks(text, 2 + _DIGITS)
    chosen = [index for index, end in shown.items() if end.strip()]
    return dict(_located(render, messages, shown, text, chosen, marks)) if marks and chosen else {}


def _located(
    render: Callable[[Messages], str],
    messages: Messages,
    shown: Mapping[int, str],
    text: str,
    chosen: Sequence[int],
    marks: Sequence[str],
) -> Iterator[tuple[int, list[Span]]]:
    opening, closing, *digits = marks
    marked: list[dict[str, Any]] = [dict(message) for message in messages]
    for index in chosen:
        number = "".join(digits[index >> place & 3] for place in range(0, index.bit_length(), 2))
        content, end, inner = marked[index]["content"], shown[index], shown[index].strip()
        around = end.replace(inner, f"{opening}{number}{inner}{closing}{number}", 1)
        marked[index]["content"] = content[: len(content) - len(end)] + around
    try:
        traced = render(marked)
    except UserError:
        traced = ""
    plain, places = without_marks(traced, f"[{opening}{closing}][{''.join(digits)}]*")
    if plain.startswith(text):
        edges: dict[int, list[int]] = {}
        for mark, place in places:
            index = sum(digits.index(digit) << 2 * position for position, digit in enumerate(mark[1:]))
            edges.setdefault(index, []).append(place)
        yield from ((index, list(zip(each[::2], each[1::2], strict=False))) for index, each in edges.items())
    elif len(chosen) > 1:
        middle = len(chosen) // 2
        yield from _located(render, messages, shown, text, chosen[:middle], marks)
        yield from _located(render, messages, shown, text, chosen[middle:], marks)
