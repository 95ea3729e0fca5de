"""Renderings of whole shapes of conversations at once: proved from one symbolic rendering, reused for every row.

A template renders conversations of one shape (the same roles in the same order) as the same literals around their
contents, as long as its conditions on them have the same results (``symbols.Condition``). A skeleton holds those
literals, already encoded if no content touches them, so that a row needs no Jinja and no search for control tokens.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.templates.rendering import Span
from ft_assets.workers.templates.symbols import Atom, Condition
from ft_assets.workers.tokenizers.segments import Tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """A segment around contents: alternating literals and atoms, and the learned spans.

    A place in it is a number of parts and a number of characters of the next part, as in ``(1, 0)`` for after the first
    part; no place is inside an atom.
    """

    parts: tuple[str | Atom, ...]
    learned: tuple[tuple[tuple[int, int], tuple[int, int]], ...]

    def fill(self, contents: Sequence[Sequence[str]]) -> tuple[list[str], list[Sequence[Span]]]:
        """The segment in each conversation (``contents``: of all its messages), and its learned spans."""
        columns = [[part] * len(contents) if isinstance(part, str) else _column(part, contents) for part in self.parts]
        texts = list(map("".join, zip(*columns, strict=True)))
        if not self.learned:
            return texts, [()] * len(texts)
        spans: list[Sequence[Span]] = []
        for row in zip(*columns, strict=True):
            starts = [0, *itertools.accumulate(map(len, row))]
            spans.append([(starts[a] + b, starts[c] + d) for (a, b), (c, d) in self.learned])
        return texts, spans


def _column(atom: Atom, contents: Sequence[Sequence[str]]) -> list[str]:
    index = atom.index
    if not atom.trims:
        return [each[index] for each in contents]
    return [atom.of(each[index]) for each in contents]


@dataclass(frozen=True, kw_only=True, slots=True)
class Skeleton:
    """The common rendering of all conversations of a shape that meet the conditions.

    Args:
        conditions: requirements on the contents.
        pieces: tokens that are the same in every conversation, and slots, in order.
        controls: control tokens that the template writes.
        unasked: turns that stand behind other tokens than their prompt.
        text: the whole rendering.
    """

    conditions: tuple[Condition, ...]
    pieces: tuple[Tokens | Slot, ...]
    controls: int
    unasked: int
    text: tuple[str | Atom, ...]

    def fitting(self, numbers: Sequence[int], contents: Sequence[Sequence[str]]) -> tuple[list[int], list[int]]:
        """Those of the conversations ``numbers`` that meet the conditions, and the others."""
        fits = list(numbers)
        for condition in self.conditions:
            test, index = condition.test(), condition.atom.index
            fits = [number for number in fits if test(contents[number][index])]
        if len(fits) == len(numbers):
            return fits, []
        chosen = set(fits)
        return fits, [number for number in numbers if number not in chosen]

    def trimmed(self, contents: Sequence[Sequence[str]]) -> NDArray[np.bool_]:
        """For each conversation, whether the rendering lacks white space around a content, bool [conversations]."""
        changed: set[int] = set()
        for atom in self.text:
            if isinstance(atom, Atom) and atom.trims:
                own = (each[atom.index] for each in contents)
                changed.update(number for number, content in enumerate(own) if len(atom.of(content)) < len(content))
        trimmed = np.zeros(len(contents), np.bool_)
        for number in changed:
            own_contents = contents[number]
            rendering = "".join(
                part if isinstance(part, str) else part.of(own_contents[part.index]) for part in self.text
            )
            trimmed[number] = any(content not in rendering for content in own_contents)
        return trimmed
