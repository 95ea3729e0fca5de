"""The format of answers: by a pattern or by a JSON Schema; what cannot be graded, and what cannot be asked for."""

from typing import Any

import pytest
from pydantic import ValidationError

from ft_assets.settings.answer_format import AnswerFormat
from ft_assets.workers.serving import answer_grader
from ft_assets.workers.serving.answer_grader import is_valid
from ft_resources.errors import BadRecipe

COLOUR = {
    "type": "object",
    "properties": {"colour": {"$ref": "#/$defs/name"}},
    "required": ["colour"],
    "additionalProperties": False,
    "$defs": {"name": {"enum": ["red", "green"]}},
}


@pytest.mark.parametrize(
    ("answer", "valid"),
    [
        ('{"colour": "red"}', True),
        ('\n {"colour": "green"}\n', True),
        ('{"colour": "blue"}', False),
        ('{"colour": "red", "why": 1}', False),
        ('Sure! {"colour": "red"}', False),
        ('```json\n{"colour": "red"}\n```', False),
        ('{"colour": "red"', False),
        ("", False),
        ("[" * 100_000, False),
        ('{"colour": NaN}', False),
    ],
)
def test_an_answer_keeps_a_schema_as_one_document(answer: str, valid: bool) -> None:
    assert is_valid(AnswerFormat(json_schema=COLOUR), answer) is valid


def test_the_empty_schema_takes_any_document() -> None:
    wanted = AnswerFormat(json_schema={})
    assert all(is_valid(wanted, answer) for answer in ("3", "null", "[]", '"red"'))
    assert not is_valid(wanted, "red")


@pytest.mark.parametrize(
    ("pattern", "answer", "valid"),
    [
        ("^yes|no$", " yes ", True),
        ("^(yes|no)$", "yes, of course", False),
        ("[0-9]{4}", "in 1984", True),
        ("[0-9]{4}", "in 84", False),
    ],
)
def test_an_answer_matches_a_pattern(pattern: str, answer: str, valid: bool) -> None:
    assert is_valid(AnswerFormat(regex=pattern), answer) is valid


def test_a_pattern_that_may_take_for_ever_grades_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadRecipe, match="for ever"):
        is_valid(AnswerFormat(regex="(a+)+$"), "a")
    monkeypatch.setattr(answer_grader, "MOST_S", 0.1)
    with pytest.raises(BadRecipe, match="takes too long"):
        is_valid(AnswerFormat(regex="a*[ab]*a*c[de]"), "a" * 20_000 + "cf")


def test_a_reference_to_nothing_grades_nothing() -> None:
    with pytest.raises(BadRecipe, match="leads nowhere"):
        is_valid(AnswerFormat(json_schema={"$ref": "#/$defs/gone"}), "1")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "set either regex or json_schema"),
        ({"regex": "a", "json_schema": {}}, "set either regex or json_schema"),
        ({"regex": "("}, "not a regular expression"),
        ({"json_schema": {"type": "thing"}}, "not a JSON Schema"),
        ({"json_schema": {"items": [{"$ref": "https://example.org/schema"}]}}, "not a JSON Schema|nothing is fetched"),
        ({"json_schema": {"allOf": [{"$ref": "file:///etc/passwd"}]}}, "nothing is fetched"),
    ],
)
def test_a_format_that_cannot_be_used_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        AnswerFormat(**settings)
