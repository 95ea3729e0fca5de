"""Fields that say something and are not used are refused or told, with lines that use or ignore them."""

import json
from typing import Any

import pytest

from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.policy import load_policy
from ft_assets.workers.datasets.forms.meaning import SAYS, Meanings
from ft_assets.workers.datasets.forms.parse import parse_lines
from ft_resources.errors import BadData, BadRecipe
from tests.workers.datasets.forms.test_fast import assert_same

Row = dict[str, Any]
PAIR: Row = {"prompt": "a", "completion": "b"}
CHAT: Row = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
ALPACA: Row = {"instruction": "a", "input": "c", "output": "b"}


def told(*rows: Row, policy: str = "") -> tuple[str, ...]:
    form = FormSettings.of(load_policy(policy, "dataset.yaml"))
    lines = "\n".join(map(json.dumps, rows)).encode()
    meanings = Meanings(form)
    meanings.add("data.jsonl", 1, lines, parse_lines(lines, form, ended=False))
    return meanings.warnings()


def blocks(text: str) -> list[str]:
    """The pieces of ``dataset.yaml`` in a message."""
    lines = [line if line.startswith(("form: ", "fields: ")) else "" for line in text.split("\n")]
    return [block.strip() for block in "\n".join(lines).split("\n\n") if block.strip()]


def columns(row: Row, policy: str) -> dict[str, Any]:
    form = FormSettings.of(load_policy(policy, "dataset.yaml"))
    (example,) = assert_same(json.dumps(row).encode(), form).examples.to_pylist()
    return {name: example[name] for name in ("messages", "chosen", "rejected", "tools", "kind")}


@pytest.mark.parametrize(
    ("row", "use"),
    [
        ({**PAIR, "label": False}, "form: unpaired_preference"),
        ({**PAIR, "label": 0}, "form: unpaired_preference"),
        ({**PAIR, "label": "0"}, "form: unpaired_preference"),
        ({**CHAT, "label": False}, "form: messages/label"),
        (
            {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}], "kto_tag": False},
            "form: messages/label\nfields: {messages: conversations, label: kto_tag}",
        ),
        ({**ALPACA, "kto_tag": False}, "form: alpaca/label\nfields: {label: kto_tag}"),
    ],
)
def test_answers_that_people_did_not_like_are_refused_and_led_to_kto(row: Row, use: str) -> None:
    name = "kto_tag" if "kto_tag" in row else "label"
    with pytest.raises(BadData) as error:
        told({**row, name: True}, row, row)
    assert error.value.where == f"data.jsonl, row 2, {name}"
    assert error.value.what.endswith("would be trained on as a good one (2 such rows)")
    assert "method kto" in error.value.remedy
    assert blocks(error.value.remedy) == [use, f"fields: {{ignore: [{name}]}}"]
    assert columns(row, use)["rejected"]
    assert columns(row, f"fields: {{ignore: [{name}]}}")["messages"]
    for policy in blocks(error.value.remedy):
        assert told(row, policy=policy) == ()


def test_a_rejected_answer_that_would_be_learned_is_refused() -> None:
    for row in (
        {**PAIR, "rejected": "b"},
        {**CHAT, "chosen": "c", "rejected": [{"role": "assistant", "content": "b "}]},
    ):
        with pytest.raises(BadData, match="the rejected answer would be trained on"):
            told(row)


@pytest.mark.parametrize(
    ("row", "uses"),
    [
        ({**PAIR, "label": True}, {"label": "form: unpaired_preference"}),
        ({**PAIR, "label": "greeting"}, {"label": "fields: {kind: label}"}),
        ({**PAIR, "label": 3}, {"label": ""}),
        ({"text": "a", "label": 0}, {"label": ""}),
        ({"text": "a", "label": "greeting"}, {"label": "fields: {prompt: text, completion: label}"}),
        ({**PAIR, "score": 0.5, "rating": 3}, {"rating": "", "score": ""}),
        ({"text": "a", "stars": 3}, {"stars": ""}),
        ({**CHAT, "weight": 0}, {"weight": ""}),
        ({**CHAT, "system": "Be brief."}, {"system": "form: system/messages"}),
        (
            {"instruction": "a", "output": "b", "tools": [{"name": "f"}]},
            {"tools": "fields: {prompt: instruction, completion: output}"},
        ),
        ({**ALPACA, "tools": [{"name": "f"}]}, {"tools": ""}),
        (
            {**CHAT, "chosen": "b", "rejected": "c", "prompt": "a"},
            {"chosen": "form: preference", "rejected": "form: preference"},
        ),
        ({**PAIR, "rejected": "c"}, {"rejected": "fields: {chosen: completion}"}),
        ({**ALPACA, "rejected": "c"}, {"rejected": "fields: {chosen: output}"}),
        ({**ALPACA, "history": [["a", "b"]]}, {"history": ""}),
        ({**ALPACA, "images": ["a.png"]}, {"images": ""}),
        ({**CHAT, "documents": [{"title": "a", "text": "b"}]}, {"documents": ""}),
        ({**PAIR, "reasoning_content": "As a is so, b."}, {"reasoning_content": ""}),
        ({**ALPACA, "thinking": "As a is so, b."}, {"thinking": ""}),
    ],
)
def test_an_unused_field_is_told_with_lines_that_use_or_ignore_it(row: Row, uses: dict[str, str]) -> None:
    warnings = told(row, row, row)
    for warning, (name, use) in zip(warnings, uses.items(), strict=False):
        assert warning.startswith(f"3 rows have a field {name!r} that is not used: it {SAYS[name]}.")
        assert blocks(warning) == [*([use] if use else []), f"fields: {{ignore: [{name}]}}"]
        if use:
            assert columns(row, use) != columns(row, "")
            form = FormSettings.of(load_policy(use, ""))
            assert name not in parse_lines(json.dumps(row).encode(), form, ended=True).unused
    if len(uses) > 1:
        assert blocks(warnings[-1]) == [f"fields: {{ignore: [{', '.join(uses)}]}}"]
    everything = blocks(warnings[-1])[-1]
    assert told(row, policy=everything) == ()
    assert columns(row, everything) == columns(row, "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("chat_template_kwargs", {"enable_thinking": False}),
        ("chat_template_kwargs", '{"enable_thinking": true}'),
        ("enable_thinking", False),
        ("thinking", True),
        ("reasoning_effort", "low"),
    ],
)
def test_a_switch_of_the_template_is_refused_unless_it_is_ignored_by_name(name: str, value: Any) -> None:
    for row in (PAIR, CHAT, {**PAIR, "rejected": "c"}):
        with pytest.raises(BadData) as error:
            told(row, {**row, name: value})
        assert error.value.where == f"data.jsonl, row 2, {name}"
        assert error.value.what == "this field sets chat template options, and all rows are rendered alike"
        (ignore,) = blocks(error.value.remedy)
        assert ignore == f"fields: {{ignore: [{name}]}}"
    assert told({**PAIR, name: value}, policy=ignore) == ()
    assert told({**PAIR, name: None}, {**PAIR, name: {}}) == ()


def test_texts_have_no_template_that_could_be_switched() -> None:
    (warning,) = told({"text": "a", "enable_thinking": True})
    assert "1 row has a field 'enable_thinking' that is not used: it sets chat template options" in warning


@pytest.mark.parametrize(("thumb", "words"), [("down", "liked: [up], disliked: [down]"), ("bad", "liked: [good]")])
def test_thumbs_in_words_refuse_as_labels_do(thumb: str, words: str) -> None:
    with pytest.raises(BadData) as error:
        told({**PAIR, "thumb": thumb})
    assert error.value.what.startswith("thumb marks this answer as disliked")
    assert f"form: unpaired_preference\nfields: {{label: thumb}}\nlabels: {{{words}" in error.value.remedy


def test_a_feedback_in_free_words_is_told_and_refuses_nothing() -> None:
    (warning,) = told({**PAIR, "feedback": "It took a while."})
    assert "1 row has a field 'feedback' that is not used" in warning


def test_sentiments_under_the_name_label_are_classes() -> None:
    (warning,) = told({**PAIR, "label": "positive"}, {**PAIR, "label": "negative"})
    assert "kto" not in warning


def test_labels_of_classes_are_not_thumbs() -> None:
    (warning,) = told(*({**PAIR, "label": label} for label in range(4)))
    assert "kto" not in warning


def test_empty_and_used_fields_are_not_told() -> None:
    assert told({**PAIR, "label": None, "score": None, "tools": [], "system": "", "id": 3, "source": "x"}) == ()
    assert told({**CHAT, "tools": [{"name": "f"}], "weight": ""}) == ()
    assert told({**PAIR, "label": False}, policy="form: unpaired_preference") == ()
    assert told({**PAIR, "label": "x"}, policy="fields: {kind: label}") == ()


def test_lines_to_paste_keep_what_the_policy_has() -> None:
    row = {"question": "a", "answer": "b", "label": False, "score": 1}
    policy = "form: prompt/completion\nfields: {prompt: question, completion: answer, ignore: [score]}"
    with pytest.raises(BadData) as error:
        told(row, policy=policy)
    assert "in place of its form and fields" in error.value.remedy
    use, ignore = blocks(error.value.remedy)
    assert use == "form: unpaired_preference\nfields: {completion: answer, prompt: question, ignore: [score]}"
    assert ignore == ("form: prompt/completion\nfields: {completion: answer, prompt: question, ignore: [score, label]}")
    assert told(row, policy=use) == told(row, policy=ignore) == ()


def test_an_ignored_field_is_read_as_if_it_were_not_there() -> None:
    row = {**CHAT, "chosen": "x", "rejected": [[1]], "id": 3}
    form = FormSettings.of(load_policy("fields: {ignore: [chosen, rejected, absent]}", ""))
    parsed = assert_same(json.dumps(row).encode(), form)
    assert (parsed.forms, parsed.unused) == ({"messages": 1}, {"id": 1})
    assert parsed.examples.equals(parse_lines(json.dumps(CHAT).encode(), FormSettings(), ended=True).examples)
    system = FormSettings(ignore=("system",))
    assert assert_same(json.dumps({**PAIR, "system": "s"}).encode(), system).examples.equals(
        assert_same(json.dumps(PAIR).encode(), system).examples
    )


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("fields: {ignore: score}", "fields: ignore should be a list of fields"),
        ("fields: {messages: [a]}", "fields: messages should be the name of one field; only prompt, completion"),
        ("fields: {prompt: []}", "fields: prompt should be the name of a field, or a list of such names"),
    ],
)
def test_a_list_stands_where_there_are_several_fields_and_only_there(policy: str, message: str) -> None:
    with pytest.raises(BadRecipe, match=message):
        load_policy(policy, "dataset.yaml")


def test_a_field_is_not_both_ignored_and_used() -> None:
    for settings in ({"fields": (("prompt", "x"),)}, {"group_by": "x"}):
        with pytest.raises(BadRecipe, match="the upload's field 'x' is both ignored and used"):
            FormSettings(ignore=("x",), **settings)  # type: ignore[arg-type]
