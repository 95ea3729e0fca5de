"""A short text with typing mistakes is told from another question in nearly the same words."""

import random

import pyarrow as pa
import pytest

from benchmarks.near_copies import mistyped
from ft_assets.workers.datasets.similarity.mistyped_words import are_short, known_words, typed

ROWS = [
    *(f"Is {word} a noun in English? yes" for word in ("table", "fable", "cable", "light", "night", "train", "brain")),
    *(f"What is {number}+{number + 1}? {2 * number + 1}" for number in range(2, 9)),
    *(f"Does {word} rhyme with {other}? no" for word, other in (("table", "night"), ("train", "cable"))),
]


def tells(one: str, other: str, rows: list[str] = ROWS) -> bool:
    known = known_words(pa.array([*rows, one, other]))
    (found,) = typed(pa.array([one]), pa.array([other]), known).tolist()
    assert typed(pa.array([other]), pa.array([one]), known).tolist() == [found]
    return bool(found)


@pytest.mark.parametrize(
    "copy",
    ["Is tabel a noun in English? yes", "is table a nuon in Englsih? yes", "IS TABLE A **NOUN** IN ENGLISH? YES"],
)
def test_mistakes_make_words_that_no_other_row_has(copy: str) -> None:
    assert tells("Is table a noun in English? yes", copy)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Is table a noun in English? yes", "Is fable a noun in English? yes"),
        ("Is train a noun in English? yes", "Is train a noun in English? no"),
        ("What is 2+3? 5", "What is 2+5? 7"),
        ("What is 2+3? five", "What is 2+5? five"),
        ("Does table rhyme with night? no", "Does table rhyme with light? no"),
        ("Which is right, in short? A", "Which is right, in short? B"),
    ],
)
def test_another_question_or_answer_is_asked_in_known_words_or_has_other_digits(one: str, other: str) -> None:
    assert not tells(one, other)


def test_of_copies_with_a_tenth_of_their_letters_mistyped_most_are_told() -> None:
    draw = random.Random(5)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(3, 8))) for _ in range(60)]
    rows = [f"{' '.join(draw.sample(words, 6))}?" for _ in range(200)]
    copies = [mistyped(draw, row, 0.1) for row in rows]
    changed = [(row, copy) for row, copy in zip(rows, copies, strict=True) if row != copy]
    known = known_words(pa.array([*rows, *copies]))
    one, other = (pa.array(each) for each in zip(*changed, strict=True))
    assert typed(one, other, known).mean() > 0.8


def test_short_is_said_of_letters_and_not_of_their_dress() -> None:
    assert are_short(pa.array(["a" * 63, "a" * 64, "a " * 63, "é" * 64, ""])).tolist() == [
        True,
        False,
        True,
        False,
        True,
    ]
