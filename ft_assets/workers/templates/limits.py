"""The work that one rendering of a template may do.

Everything is counted in loop iterations and never in seconds, so that a template stops at the same place on every
machine. Python does a million iterations in about a second.
"""

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from dataclasses import dataclass
from typing import Any

from jinja2.runtime import Context
from jinja2.utils import Namespace

LIMITS = "ft_limits"
"""Name under which a rendering gets its ``Limits``."""
# A conversation of 10,000 messages takes a tenth as many.
STEPS = 1_000_000
MOST_CHARACTERS = 1 << 28
MOST_NUMBER = 1 << 63
MOST_DIGITS = 300
# Items of a list that cost a step. Lists that grow by a message at a time may have 10,000; all that a rendering makes
# have at most 64 million, which are 512 MB. New items, of a text that is split, take more: a few hundred MB.
_ITEMS, _NEW_ITEMS = 64, 8
# Characters of a text that cost a step: where it is copied, and where each word of it becomes an object.
_CHARACTERS, _SLOW_CHARACTERS = 1 << 10, 8


class WithoutEnd(Exception):
    """A template has done more work than any conversation or item requires."""


@dataclass(slots=True)
class Limits:
    """Remaining work of one rendering, in loop iterations; a call counts as ten."""

    steps: int = STEPS

    def step(self, steps: int = 1) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise WithoutEnd("loops without end")

    def make(self, items: int) -> None:
        """Count a list of this many existing items, before it is made."""
        self.step(items // _ITEMS)

    def make_new(self, items: int) -> None:
        """Count a list of this many new items, before it is made."""
        self.step(items // _NEW_ITEMS)

    def use(self, value: Any, *, slow: bool = False) -> None:
        """Count reading ``value``: of a list its items, but not what they contain."""
        if isinstance(value, str | bytes):
            self.step(len(value) // (_SLOW_CHARACTERS if slow else _CHARACTERS))
        elif isinstance(value, range):
            self.step(len(value) // _NEW_ITEMS)
        elif isinstance(value, list | tuple | Mapping):
            self.step(len(value) // _ITEMS)

    def read(self, value: Any) -> None:
        """Count reading all of ``value``, as its text, a comparison or a hash does.

        What it contains twice counts twice: forty lists, each with the one before twice, are a terabyte as text.
        """
        if isinstance(value, str | bytes | range):
            self.use(value)
            return
        waiting, length = [value], 0
        while waiting:
            each = waiting.pop()
            if isinstance(each, str | bytes):
                length += len(each)
                fit(length)
            elif (items := _inside(each)) is not None:
                self.step(1 + len(items) // _NEW_ITEMS)
                waiting.extend(items)
        self.step(length // _CHARACTERS)

    def counted(self, items: Iterable[Any], *, whole: bool = False) -> Iterator[Any]:
        """``items``, counted as they are read; with ``whole``, so is all that they contain."""
        for number, item in enumerate(items, 1):
            if number % _NEW_ITEMS == 0:
                self.step()
            if whole:
                self.read(item)
            yield item


def limits_of(context: Context) -> Limits:
    """The rendering's limits, even if the template has a variable of their name."""
    found: Limits = context.parent[LIMITS]
    return found


def is_short(value: Any) -> bool:
    """Whether ``value`` is a text too short to count."""
    return isinstance(value, str) and len(value) < _CHARACTERS


def fit(length: int) -> None:
    """Raise WithoutEnd if a text of ``length`` characters is too long."""
    if length > MOST_CHARACTERS:
        raise WithoutEnd("a text without end")


def number(value: int) -> int:
    """``value``. Raises WithoutEnd if it has more than 64 bits."""
    if abs(value) > MOST_NUMBER:
        raise WithoutEnd("a number without end")
    return value


def _inside(value: Any) -> list[Any] | tuple[Any, ...] | None:
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, Namespace):
        # Its own attribute access finds only what the template has set.
        value = object.__getattribute__(value, "_Namespace__attrs")
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    return list(value) if isinstance(value, KeysView | ValuesView | ItemsView) else None
