"""Short tasks on lists: copy, reverse, sort, count, pick, replace. Three examples show the format; only the exact
answer is right."""

from collections.abc import Callable, Iterator
from typing import Any

from ft_assets.workers.suites.catalogue.made.draw import Draw

_SHOTS = 3
_PLACES = ("first", "second", "third", "fourth")
_WORDS = (
    "anchor apple basket bird blanket bottle branch bridge bucket button cabin candle carpet castle chair "
    "cloud coat corner cup desk door drum engine fence field flag flower fork garden gate glass glove "
    "hammer harbour hat hill island jacket kettle key ladder lamp leaf lemon letter market meadow mirror needle "
    "oven pencil pillow pipe plate pocket pond rabbit river road roof rope saddle shelf shirt "
    "spoon stone table tower train tree valley village wagon wheel window"
)
WORDS = tuple(_WORDS.split())
Task = Callable[[Draw], tuple[str, str]]


def _list(words: list[str] | list[int]) -> str:
    return ", ".join(map(str, words))


def _words(draw: Draw) -> list[str]:
    return draw.some(WORDS, draw.between(4, 6))


def _numbers(draw: Draw) -> list[int]:
    return draw.some(range(10, 100), draw.between(4, 6))


def _copy(draw: Draw) -> tuple[str, str]:
    words = _words(draw)
    return f"Copy this list: {_list(words)}", _list(words)


def _reverse(draw: Draw) -> tuple[str, str]:
    words = _words(draw)
    return f"Write this list from its end to its beginning: {_list(words)}", _list(words[::-1])


def _alphabet(draw: Draw) -> tuple[str, str]:
    words = _words(draw)
    return f"Write this list in the order of the alphabet: {_list(words)}", _list(sorted(words))


def _ascending(draw: Draw) -> tuple[str, str]:
    numbers = _numbers(draw)
    return f"Write these numbers from the smallest to the largest: {_list(numbers)}", _list(sorted(numbers))


def _largest(draw: Draw) -> tuple[str, str]:
    numbers = _numbers(draw)
    return f"Which of these numbers is the largest? {_list(numbers)}", str(max(numbers))


def _count(draw: Draw) -> tuple[str, str]:
    words = draw.some(WORDS, draw.between(3, 9))
    return f"How many words has this list? {_list(words)}", str(len(words))


def _pick(draw: Draw) -> tuple[str, str]:
    words, place = _words(draw), draw.below(len(_PLACES))
    return f"Which word is the {_PLACES[place]} of this list? {_list(words)}", words[place]


def _missing(draw: Draw) -> tuple[str, str]:
    start, step, hidden = draw.between(1, 50), draw.between(2, 9), draw.between(1, 3)
    row = [start + step * place for place in range(5)]
    shown = [str(number) if place != hidden else "_" for place, number in enumerate(row)]
    return f"Which number belongs in the gap? {', '.join(shown)}", str(row[hidden])


def _initials(draw: Draw) -> tuple[str, str]:
    words = _words(draw)
    return f"Write the first letter of each word: {_list(words)}", _list([word[0] for word in words])


def _replace(draw: Draw) -> tuple[str, str]:
    words = _words(draw)
    old, new = draw.one(words), draw.one([word for word in WORDS if word not in words])
    return f"Write {new} for {old} in this list: {_list(words)}", _list(
        [new if word == old else word for word in words]
    )


TASKS: dict[str, Task] = {
    "copy": _copy, "reverse": _reverse, "alphabet": _alphabet, "ascending": _ascending, "largest": _largest,
    "count": _count, "pick": _pick, "missing": _missing, "initials": _initials, "replace": _replace,
}  # fmt: skip


def items(draw: Draw) -> Iterator[dict[str, Any]]:
    """Rows with ``task``, ``question`` and ``answer``."""
    while True:
        for task, make in TASKS.items():
            question, answer = make(draw)
            yield {"task": task, "question": question, "answer": answer}


def shots(draw: Draw) -> list[dict[str, Any]]:
    """For each task its examples as one text."""
    return [
        {"task": task, "shots": "".join(_example(*make(draw)) for _ in range(_SHOTS))} for task, make in TASKS.items()
    ]


def _example(question: str, answer: str) -> str:
    return f"{question}\nAnswer: {answer}\n\n"
