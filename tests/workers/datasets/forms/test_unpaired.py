"""Rows of a prompt, an answer and whether people liked it."""

import json
from typing import Any

import pytest

from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.workers.datasets.forms.parse import parse_slowly

FORM = FormSettings(form="unpaired_preference")


def parsed(form: FormSettings, **row: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    found = parse_slowly((json.dumps(row) + "\n").encode(), form, ended=True)
    return found.examples.to_pylist(), found.bad.to_pylist()


def contents(turns: list[dict[str, str]]) -> list[str]:
    return [turn["content"] for turn in turns]


@pytest.mark.parametrize("label", [True, 1, 1.0, "true", "True", "1"])
def test_an_answer_that_people_liked_is_chosen(label: Any) -> None:
    ((example,), bad) = parsed(FORM, prompt="why?", completion="so", label=label)
    assert not bad
    assert contents(example["messages"]) == ["why?"]
    assert (contents(example["chosen"]), contents(example["rejected"])) == (["so"], [])


@pytest.mark.parametrize("label", [False, 0, 0.0, "false", "False", "0"])
def test_one_that_they_did_not_like_is_rejected(label: Any) -> None:
    turns = {"prompt": [{"role": "user", "content": "why?"}], "completion": [{"role": "assistant", "content": "so"}]}
    ((example,), bad) = parsed(FORM, **turns, label=label)
    assert not bad
    assert contents(example["messages"]) == ["why?"]
    assert (contents(example["chosen"]), contents(example["rejected"])) == ([], ["so"])


@pytest.mark.parametrize("label", [None, 2, 2.0, "good", 0.5, [True]])
def test_another_label_is_a_bad_row_that_names_the_field(label: Any) -> None:
    examples, ((bad),) = parsed(FORM, prompt="why?", completion="so", label=label)
    assert not examples
    assert bad["field"] == "label"


def test_without_a_policy_such_rows_are_conversations_as_they_were_before_there_was_the_form() -> None:
    ((example,), _) = parsed(FormSettings(), prompt="why?", completion="so", label=True)
    assert contents(example["messages"]) == ["why?", "so"]
