"""The columns of a page, and the order in which a person reads them."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple, Self
from unicodedata import bidirectional

# Fewer lines side by side are not columns.
_LEAST_LINES = 6
# A table's cells are shorter than lines of text (in heights of a line, each about two letters), and differ in length.
_SHORTEST_LINE, _FULL = 10, 0.7

_LOOKED_AT = 1000


Character = tuple[int, float, float, float, float]
"""An index and the four numbers of a Box; plain numbers, as a page has thousands."""


class Box(NamedTuple):
    """A place on a page: points from its left and its upper edge."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2

    def beside(self, other: Self) -> bool:
        """Whether both are on one line."""
        return min(self.bottom, other.bottom) - max(self.top, other.top) > min(self.height, other.height) / 2

    def holds(self, other: Self) -> bool:
        """Whether the middle of ``other`` is in this one."""
        return self.left <= (other.left + other.right) / 2 < self.right and self.top <= other.middle < self.bottom

    def joined(self, other: Self) -> "Box":
        """The smallest box around both."""
        return Box(
            min(self.left, other.left),
            min(self.top, other.top),
            max(self.right, other.right),
            max(self.bottom, other.bottom),
        )


def runs(characters: Iterable[Character]) -> Iterator[tuple[int, Box]]:
    """Characters that follow each other on a line without a wide gap, as one box, with the index of the first."""
    first, run = -1, Box(0, 0, 0, 0)
    for index, left, top, right, bottom in characters:
        r_left, r_top, r_right, r_bottom = run
        tall, overlap = max(bottom - top, r_bottom - r_top), min(bottom, r_bottom) - max(top, r_top)
        beside = overlap > min(bottom - top, r_bottom - r_top) / 2
        # An underscore or a quotation mark overlaps with nothing, and follows closely.
        follows = overlap > -tall / 2 and left > r_right - tall / 4
        if first >= 0 and (beside or follows) and max(left - r_right, r_left - right) <= tall:
            run = Box(min(left, r_left), min(top, r_top), max(right, r_right), max(bottom, r_bottom))
        else:
            if first >= 0:
                yield first, run
            first, run = index, Box(left, top, right, bottom)
    if first >= 0:
        yield first, run


def from_right(text: str) -> bool:
    """Whether most letters of ``text`` are of a script that is written from right to left."""
    directions = [bidirectional(letter) for letter in text[:_LOOKED_AT]]
    return directions.count("R") + directions.count("AL") > directions.count("L")


class Columns:
    """The gaps between a page's columns of running text, and the heights at which something spans them."""

    def __init__(self, boxes: Sequence[Box], gaps: Sequence[tuple[float, float]], *, from_right: bool) -> None:
        self._edges, self._from_right = [edge for _, edge in gaps], from_right
        ordered = sorted(boxes, key=lambda box: box.middle)
        # Across, or in a gap itself, as some page numbers are.
        across = [
            any(box.left < edge < box.right or begin < box.left < edge for begin, edge in gaps) for box in ordered
        ]
        changes = [at for at, (one, next_one) in enumerate(pairwise(across)) if one != next_one]
        self._ends = [(ordered[at].middle + ordered[at + 1].middle) / 2 for at in changes]
        self._first_is_across = across[0]

    def region(self, box: Box) -> tuple[int, int]:
        """The place of a box in the reading order: what spans the columns, then each column down to the next thing that
        spans them, and so on."""
        band = bisect_right(self._ends, box.middle)
        if (band % 2 == 0) == self._first_is_across:
            return band, 0
        column = bisect_right(self._edges, (box.left + box.right) / 2)
        return band, -column if self._from_right else column


def columns_of(boxes: Sequence[Box], *, from_right: bool = False) -> Columns | None:
    """The columns of a page with these runs; None if it is not clearly in columns of text. ``from_right``: the first
    column is the right one, as in Arabic."""
    gaps = _gaps(boxes) if len(boxes) >= 2 * _LEAST_LINES else []
    return Columns(boxes, gaps, from_right=from_right) if gaps else None


def _gaps(boxes: Sequence[Box]) -> list[tuple[float, float]]:
    """(where nearly all lines of a column end, where the next column begins); empty if a side is not a column of
    text."""
    lefts, rights = sorted(box.left for box in boxes), sorted(box.right for box in boxes)
    found: list[tuple[int, float, float]] = []
    for edge in sorted(set(lefts)):
        before, after = bisect_left(rights, edge), len(lefts) - bisect_left(lefts, edge)
        across = len(boxes) - before - after
        if min(before, after) >= _LEAST_LINES and across < len(boxes) // 2:
            found.append((across, edge - _nearly_all(rights[:before]), edge))
    if not found:
        return []
    # The widest gap that hardly anything crosses: labels of a list form a column, too.
    fewest = min(found)[0] + len(boxes) // 50
    width, best = max((width, edge) for across, width, edge in found if across <= fewest)
    sides = [box for box in boxes if box.right < best], [box for box in boxes if box.left >= best]
    gaps = [_gaps(side) for side in sides]
    if not all(inner or _is_text(side) for inner, side in zip(gaps, sides, strict=True)):
        return []
    return [*gaps[0], (best - width, best), *gaps[1]]


def _nearly_all(ordered: Sequence[float]) -> float:
    """The value that nine tenths do not exceed."""
    return ordered[-1 - len(ordered) // 10]


def _is_text(boxes: Iterable[Box]) -> bool:
    """Whether these are the lines of one column: long, and most of them about equally long."""
    lines: list[Box] = []
    for box in sorted(boxes, key=lambda box: box.middle):
        if lines and lines[-1].beside(box):
            lines[-1] = lines[-1].joined(box)
        else:
            lines.append(box)
    if len(lines) < _LEAST_LINES:
        return False
    usual = median(line.width for line in lines)
    return usual >= _FULL * _nearly_all(sorted(line.width for line in lines)) and usual >= _SHORTEST_LINE * median(
        line.height for line in lines
    )
