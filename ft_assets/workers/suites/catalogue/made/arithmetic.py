"""Arithmetic: the ten tasks of Brown et al. 2020 (https://arxiv.org/abs/2005.14165, section 3.9.1), worded as in
lm-eval's ``arithmetic``."""

from collections.abc import Iterator
from typing import Any

from ft_assets.workers.suites.catalogue.made.draw import Draw

_WORDS = {"+": "plus", "-": "minus", "*": "times"}
# As in the paper: numbers from 0 to 10^digits - 1.
_TASKS = {
    "2da": (2, "+"), "2ds": (2, "-"), "2dm": (2, "*"), "3da": (3, "+"), "3ds": (3, "-"),
    "4da": (4, "+"), "4ds": (4, "-"), "5da": (5, "+"), "5ds": (5, "-"),
}  # fmt: skip


def items(draw: Draw) -> Iterator[dict[str, Any]]:
    """Rows with ``task``, ``context`` and ``completion``; the answer may be negative."""
    while True:
        yield _row("1dc", *_composite(draw))
        for task, (digits, sign) in _TASKS.items():
            first, second = draw.below(10**digits), draw.below(10**digits)
            yield _row(task, f"{first} {_WORDS[sign]} {second}", _value(first, sign, second))


def _composite(draw: Draw) -> tuple[str, int]:
    """Two operations on three digits, with parentheses around the last two."""
    first, second, third = (draw.below(10) for _ in range(3))
    outer, inner = draw.one("+-*"), draw.one("+-*")
    return f"{first} {outer} ({second} {inner} {third})", _value(first, outer, _value(second, inner, third))


def _value(first: int, sign: str, second: int) -> int:
    return {"+": first + second, "-": first - second, "*": first * second}[sign]


def _row(task: str, asked: str, answer: int) -> dict[str, Any]:
    return {"task": task, "context": f"Question: What is {asked}?\nAnswer:", "completion": f" {answer}"}
