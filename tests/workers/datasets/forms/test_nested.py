"""Rows whose answers lie in a list or an object are not read without them."""

from typing import Any

import pytest

from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.workers.datasets.forms.guesses import guess_columns
from ft_assets.workers.datasets.forms.nested import nested_advice

Row = dict[str, Any]


def advice(row: Row) -> str:
    rows = [row, row]
    return nested_advice(rows, guess_columns(rows, FormSettings()))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            {"id": "1", "instruction": "Say it.", "instances": [{"input": "", "output": "It."}]},
            "`instances` holds texts (input, output) inside a list or an object",
        ),
        (
            {"context": "A b.", "question": "c?", "answers": {"text": ["b"], "answer_start": [2]}},
            "`answers` holds texts (text) inside",
        ),
        ({"translation": {"en": "Cat", "de": "Katze"}}, "`translation` holds texts (en, de) inside"),
    ],
)
def test_answers_in_a_list_or_an_object_are_named_instead_of_a_guess_without_them(row: Row, words: str) -> None:
    assert words in advice(row)


@pytest.mark.parametrize(
    "row",
    [
        {"question": "a", "answer": "b", "meta": {"source": "web"}},
        {"dialog": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]},
        {"story": "Once upon a time.", "meta": {"author": "Ann"}},
        {"x": 1},
    ],
)
def test_a_guess_that_reads_the_answers_stands(row: Row) -> None:
    assert advice(row) == ""
