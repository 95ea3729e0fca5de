"""Plan the computation of sequences with shared prefixes: each prefix once, the rest packed into few rows.

Sorted sequences are the paths of a tree of tokens. The common prefix of a range of neighbours, such as the few-shot
examples of a task or of one of MMLU's subjects, is its *trunk*: computed once and kept as keys and values. The rest,
the questions and their choices, is packed into rows after it::

    trunk        few-shot examples                       positions 0 … T-1
    row          question 1 | A | B | question 2 | C     each token sees the trunk and its own path, nothing else
    positions    T  T+1 T+2 | T+3 | T+3 | T …

Sequences with hardly any common prefix have no trunk; several of their rows form a batch. Pure planning, no tensors.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

# Fewer common tokens do not pay for a separate computation.
MIN_TRUNK = 64
# Every token of a row attends to the whole row, so rows are kept narrow.
NARROW = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Path:
    """One sequence and the tokens to predict at its end.

    ``tokens`` are the model's input: the last ``len(targets)`` of them each predict one of ``targets``.
    """

    tokens: list[int]
    targets: list[int]

    @property
    def first(self) -> int:
        """The first position whose prediction is needed."""
        return len(self.tokens) - len(self.targets)


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits of one model call: ``tokens`` in its rows, and ``predictions`` over the vocabulary."""

    tokens: int
    predictions: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call of the model: rows of paths, by their indices in sorted order, after the first ``trunk`` tokens that all
    of them share. With a trunk there is one row."""

    trunk: int
    rows: list[list[int]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """The tokens of a row, each computed once, and for each path the indices in the row of its tokens after the trunk
    (``paths``) and of its predictions (``places``)."""

    tokens: list[int]
    positions: list[int]
    paths: list[list[int]]
    places: list[list[int]]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Range:
    """Neighbouring paths from ``start`` to ``stop``, with their cost after a trunk."""

    start: int
    stop: int
    tokens: int
    predictions: int


@dataclass(frozen=True, kw_only=True)
class PrefixTree:
    """Paths in sorted order; ``common[i]`` is the length of the common prefix of paths i and i-1, 0 for the first."""

    paths: list[Path]
    common: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, paths: Sequence[Path]) -> tuple["PrefixTree", list[int]]:
        """The tree, and for each of its paths the index in ``paths``."""
        # Compared as bytes: any order that puts equal prefixes side by side will do.
        arrays = [np.asarray(path.tokens, np.int32) for path in paths]
        keys = [array.tobytes() for array in arrays]
        order = sorted(range(len(paths)), key=keys.__getitem__)
        common = [0, *(common_prefix(arrays[one], arrays[other]) for one, other in pairwise(order))]
        return cls(paths=[paths[place] for place in order], common=common[: len(order)]), order

    def calls(self, limits: Limits) -> Iterator[Call]:
        """Calls that predict everything; neighbouring trunks share as much of their start as their paths do."""
        ranges = [(0, len(self.paths))] if self.paths else []
        while ranges:
            start, stop = ranges.pop()
            common = min(self.common[start + 1 : stop], default=len(self.paths[start].tokens))
            trunk = min(common, *(path.first for path in self.paths[start:stop]))
            trunk = trunk if trunk >= MIN_TRUNK else 0
            children = list(self._children(start, stop, common, trunk))
            # An indivisible range is a row by itself, however long.
            large = [child for child in children if child.tokens > limits.tokens and len(children) > 1]
            small = [child for child in children if child.tokens <= limits.tokens or len(children) == 1]
            rows = list(_rows(small, min(limits.tokens, max(NARROW, trunk // 2)), limits))
            if trunk:
                yield from (Call(trunk=trunk, rows=[_members(row)]) for row in rows)
            else:
                yield from _batches(rows, limits)
            ranges += [(child.start, child.stop) for child in reversed(large)]

    def row(self, trunk: int, members: Sequence[int]) -> Row:
        """The row of some paths after a trunk; adjacent members share the tokens of their common prefix."""
        row = Row(tokens=[], positions=[], paths=[], places=[])
        before, previous = -1, list[int]()
        for number in members:
            path = self.paths[number]
            shared = max(0, self.common[number] - trunk) if number - 1 == before else 0
            nodes = previous[:shared]
            for depth in range(trunk + shared, len(path.tokens)):
                nodes.append(len(row.tokens))
                row.tokens.append(path.tokens[depth])
                row.positions.append(depth)
            row.paths.append(nodes)
            row.places.append(nodes[path.first - trunk :])
            before, previous = number, nodes
        return row

    def _children(self, start: int, stop: int, common: int, trunk: int) -> Iterator[_Range]:
        """Ranges with more than ``common`` tokens in common, and what each adds to a row after the trunk."""
        first = start
        for number in range(start + 1, stop + 1):
            if number == stop or self.common[number] <= common:
                # A range's first path shares only the trunk with the rest of its row.
                tokens = len(self.paths[first].tokens) - trunk
                for later in range(first + 1, number):
                    tokens += len(self.paths[later].tokens) - max(trunk, self.common[later])
                predictions = sum(len(path.targets) for path in self.paths[first:number])
                yield _Range(start=first, stop=number, tokens=tokens, predictions=predictions)
                first = number


def _rows(ranges: list[_Range], width: int, limits: Limits) -> Iterator[list[_Range]]:
    """Ranges packed into rows up to a width, longest first; a longer one is a row by itself."""
    row: list[_Range] = []
    for each in sorted(ranges, key=lambda each: (-each.tokens, each.start)):
        tokens = sum(other.tokens for other in row) + each.tokens
        predictions = sum(other.predictions for other in row) + each.predictions
        if row and (tokens > width or predictions > limits.predictions):
            yield row
            row = []
        row.append(each)
    if row:
        yield row


def _batches(rows: list[list[_Range]], limits: Limits) -> Iterator[Call]:
    """Rows without a trunk, as many as fit into one call once padded to one width."""
    batch: list[list[_Range]] = []
    widest = predictions = 0
    for row in sorted(rows, key=lambda row: -sum(each.tokens for each in row)):
        tokens, wanted = sum(each.tokens for each in row), sum(each.predictions for each in row)
        if batch and ((len(batch) + 1) * widest > limits.tokens or predictions + wanted > limits.predictions):
            yield Call(trunk=0, rows=[_members(each) for each in batch])
            batch, widest, predictions = [], 0, 0
        batch.append(row)
        widest, predictions = max(widest, tokens), predictions + wanted
    if batch:
        yield Call(trunk=0, rows=[_members(each) for each in batch])


def _members(row: list[_Range]) -> list[int]:
    return [number for each in sorted(row, key=lambda each: each.start) for number in range(each.start, each.stop)]


def common_prefix(one: ArrayLike, other: ArrayLike) -> int:
    """Length of the common prefix of two sequences."""
    first, second = np.asarray(one, np.int32), np.asarray(other, np.int32)
    length = min(len(first), len(second))
    differ = np.flatnonzero(first[:length] != second[:length])
    return int(differ[0]) if len(differ) else length
