"""Turns and labels in an upload's own words are read as the policy says they are meant."""

import json
from typing import Any

import pytest

from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.policy import DatasetPolicy, load_policy
from ft_assets.workers.datasets.engine.prepare import PrepareSettings
from ft_resources.errors import BadRecipe
from tests.workers.datasets.forms.test_fast import assert_same

TURNS = "fields: {messages: dialog}\nturns: {role: who, content: said, roles: {client: user, bot: assistant}}"
STARS = "form: unpaired_preference\nlabels: {liked: [4, 5], disliked: [1, 2]}"


def read(policy: str, **row: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    found = assert_same(json.dumps(row).encode(), FormSettings.of(load_policy(policy, "dataset.yaml")))
    return found.examples.to_pylist(), found.bad.to_pylist()


def said(*turns: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"who": "client", "said": "Where?"}, {"who": "bot", "said": "There."}, *turns]


def test_turns_are_read_by_the_names_that_the_policy_gives() -> None:
    ((example,), bad) = read(TURNS, dialog=said())
    assert not bad
    assert [(turn["role"], turn["content"]) for turn in example["messages"]] == [
        ("user", "Where?"),
        ("assistant", "There."),
    ]


@pytest.mark.parametrize(
    ("turn", "field", "problem"),
    [
        ({"who": "client", "said": "And?", "ts": 3}, "messages[2]", "and nothing else ('ts')"),
        ({"who": "boss", "said": "And?"}, "messages[2].role", "not 'boss'"),
        ({"who": "client"}, "messages[2].content", "this field is missing"),
        ({"said": "And?"}, "messages[2].role", "this field is missing; the turn has said"),
        ({"who": "client", "said": "And?", "role": "lead"}, "messages[2]", "add role to turns.ignore"),
    ],
)
def test_what_a_policy_does_not_name_refuses_the_row(turn: dict[str, Any], field: str, problem: str) -> None:
    examples, (bad,) = read(TURNS, dialog=said(turn))
    assert not examples
    assert bad["field"] == field
    assert problem in bad["problem"]


def test_ignored_fields_of_a_turn_are_left_out_also_beside_the_usual_names() -> None:
    turns = [{"role": "user", "content": "a", "ts": 1}, {"role": "assistant", "content": "b", "ts": 2}]
    assert (
        read("turns: {ignore: [ts]}", messages=turns)[0]
        == read("", messages=[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])[0]
    )


@pytest.mark.parametrize(("stars", "column"), [(5, "chosen"), ("4", "chosen"), (1, "rejected"), (" 2 ", "rejected")])
def test_stars_say_what_the_policy_says_they_say(stars: Any, column: str) -> None:
    ((example,), _) = read(STARS, prompt="a", completion="b", label=stars)
    assert example[column]


def test_a_label_in_neither_list_is_a_bad_row_that_shows_it() -> None:
    examples, (bad,) = read(STARS, prompt="a", completion="b", label=3)
    assert not examples
    assert bad["problem"] == "this should be true or false, or 1 or 0, not 3"


@pytest.mark.parametrize(
    "policy",
    [
        "turns: {role: text, content: text}",
        "turns: {role: who, content: said, ignore: [who]}",
        "turns: {roles: {agent: helper}}",
        "labels: {liked: [up], disliked: [Up]}",
        "labels: {liked: [up]}",
    ],
)
def test_words_that_mean_two_things_or_nothing_are_refused(policy: str) -> None:
    with pytest.raises(BadRecipe):
        load_policy(policy, "dataset.yaml")


def test_policies_without_such_words_are_stored_as_before_and_others_prepare_chunks_anew() -> None:
    plain = DatasetPolicy().model_dump(mode="json")
    assert not {"turns", "labels"} & plain.keys()
    spelt = load_policy(TURNS, "dataset.yaml").model_dump(mode="json")
    keys = {
        PrepareSettings(policy=policy, index=None, suites=()).key
        for policy in (spelt, {name: value for name, value in spelt.items() if name != "turns"})
    }
    assert len(keys) == 2
