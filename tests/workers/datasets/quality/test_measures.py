"""The heuristics: each against a plain version of itself, and on texts of which one knows what they should say."""

import json
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.settings.dataset.policy import QualitySettings
from ft_assets.workers.datasets.quality.breaks import UNFINISHED, find_breaks
from ft_assets.workers.datasets.quality.measures import MEASURES, measure
from ft_assets.workers.datasets.quality.scan import count_repeats
from ft_assets.workers.datasets.similarity.hashing import text_buffers
from tests.workers.datasets.quality.made import batch, chat, row, turn

SENTENCES = "The cat sat on the mat because it was warm. It slept there all day."
TEXTS = st.lists(
    st.text("ab \n", max_size=60) | st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=6
)


def measured(*rows: dict, settings: QualitySettings | None = None) -> list[dict]:
    return measure(*batch(rows), settings or QualitySettings()).to_pylist()


def flags(answer: str) -> set[str]:
    (found,) = measured(chat(answer))
    return {name for name, value in found.items() if value is True}


def words_of(text: str) -> list[str]:
    """Words as the kernels see them: between ASCII white space, a character alone from U+3000 to U+9FFF."""
    return re.findall("[\u3000-\u9fff]|[^ \t\n\x0b\x0c\r\u3000-\u9fff]+", text)


def plain_repetition(text: str) -> float:
    words = words_of(text)
    if len(words) < 10:
        return 0.0
    grams = [tuple(words[at : at + 5]) for at in range(len(words) - 4)]
    lines = [tuple(words_of(line)) for line in text.split("\n") if words_of(line)]
    sizes = [sum(len(word.encode()) for word in line) for line in lines]
    again = sum(size for at, (line, size) in enumerate(zip(lines, sizes, strict=True)) if line in lines[:at])
    return max((len(grams) - len(set(grams))) / len(grams), again / sum(sizes))


@given(TEXTS)
def test_repetition_is_that_of_a_plain_count(texts: list[str]) -> None:
    array = pa.array(texts, pa.string())
    found = np.empty(len(texts), np.float32)
    count_repeats(*text_buffers(array), found)
    np.testing.assert_allclose(found, [plain_repetition(text) for text in texts], rtol=1e-6)


def test_the_columns_are_those_promised_whatever_the_rows() -> None:
    for rows in ([], [chat("yes")], [row(text="a b")], [chat("yes"), row(text="a")]):
        assert measure(*batch(rows), QualitySettings()).schema == MEASURES


def test_characters_are_code_points_of_the_whole_text() -> None:
    (found,) = measured(chat("Weil es grün ist.", "Warum?"))
    assert found["characters"] == 24


def test_the_answer_is_the_last_assistant_turn_the_chosen_one_or_the_text() -> None:
    talk = row(messages=[turn("user", "q"), turn("assistant", "four"), turn("user", "and?")])
    liked = row(
        messages=[turn("user", "q"), turn("assistant", "no"), turn("user", "q")],
        chosen=[turn("assistant", "chosen!")],
        rejected=[turn("assistant", "not this one")],
    )
    silent = row(messages=[turn("user", "nobody answers")])
    for least, short in ((4, [0, 0, 0, 1]), (5, [1, 0, 0, 1]), (7, [1, 0, 0, 1]), (8, [1, 1, 0, 1]), (13, [1] * 4)):
        limits = QualitySettings(min_answer_characters=least)
        found = measured(talk, liked, row(text="a plain text"), silent, settings=limits)
        assert [each["short"] for each in found] == short


def test_a_turn_that_calls_tools_needs_no_words() -> None:
    call = row(messages=[turn("user", "q"), turn("assistant", "", '[{"id": "1"}]')])
    (found,) = measured(call)
    assert not found["empty_answer"]
    assert not found["short"]


@pytest.mark.parametrize("answer", ["", " \n", "...", "-", "—", "\u200b", "_ _"])
def test_an_answer_that_says_nothing_is_empty(answer: str) -> None:
    assert "empty_answer" in flags(answer)


@pytest.mark.parametrize("answer", ["0", "No", "x", "不", "🙂", "+"])
def test_an_answer_of_one_sign_is_not_empty(answer: str) -> None:
    assert "empty_answer" not in flags(answer)


def test_short_and_long_follow_the_settings() -> None:
    limits = QualitySettings(min_answer_characters=4, max_characters=100)
    found = measured(chat("abc"), chat("abcd"), chat("a" * 96), chat("a" * 95), settings=limits)
    assert [each["short"] for each in found] == [True, False, False, False]
    assert [each["long"] for each in found] == [False, False, True, False]


def test_loops_are_repetitive_and_prose_is_not() -> None:
    assert "repetitive" in flags("I do not know what to say. " * 6)
    assert "repetitive" in flags("- buy milk and eggs\n" * 8)
    assert "repetitive" in flags("我不知道该说什么。" * 8)
    assert "repetitive" not in flags(SENTENCES)


@pytest.mark.parametrize(
    "answer",
    [
        "Here is the code:\n```python\nprint(1)\n",
        '{"name": "x", "items": [1, 2, {"a": "b',
        '[{"a": 1}, {"b": 2',
        "Bring water, food, a knife, a first aid kit, matches,",
        "The festival takes place every year in Chicago and it is one of the",
        "There are several kinds of boats that one can row (",
    ],
)
def test_an_answer_that_breaks_off_is_truncated(answer: str) -> None:
    assert "truncated" in flags(answer)
    assert "truncated" in flags(answer + " \n")


@pytest.mark.parametrize(
    "answer",
    [
        "42",
        "Paris",
        "the",
        "A, B, and",
        "Dear John,",
        "#### 1,250",
        SENTENCES,
        SENTENCES.removesuffix("."),
        "```python\nprint(1)\n```",
        "Use ``` to start a block of code in Markdown, as everybody knows.",
        '{"name": "a } in a string", "items": [1, 2]}',
        '["a", "b \\" ]"]',
        "[Verse 1] once upon a time there was a song",
        "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a",
    ],
)
def test_an_answer_that_ends_is_not_truncated(answer: str) -> None:
    assert "truncated" not in flags(answer)


def test_plain_text_is_never_truncated() -> None:
    (found,) = measured(row(text="A piece of a book may end wherever the page ends, and"))
    assert not found["truncated"]


@given(
    st.recursive(
        st.text(max_size=5) | st.integers(),
        lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=3), x, max_size=3),
    )
)
def test_whole_json_is_never_broken_off(value: object) -> None:
    found = np.empty(1, np.uint8)
    find_breaks(*text_buffers(pa.array([json.dumps([value], ensure_ascii=False)])), UNFINISHED, found)
    assert found[0] == 0


@given(st.lists(st.text(max_size=40), min_size=1, max_size=8), st.data())
def test_a_row_is_measured_alike_wherever_it_stands(answers: list[str], data: st.DataObject) -> None:
    rows = [chat(answer) if index % 3 else row(text=answer) for index, answer in enumerate(answers)]
    examples, texts = batch(rows)
    whole = measure(examples, texts, QualitySettings())
    start = data.draw(st.integers(0, len(rows)))
    count = data.draw(st.integers(0, len(rows) - start))
    part = measure(examples.slice(start, count), texts.slice(start, count), QualitySettings())
    assert part.equals(whole.slice(start, count))


def test_a_very_long_text_is_measured_in_bounded_time() -> None:
    (found,) = measured(chat("word and another " * 500_000))
    assert found["repetitive"]
