"""Rows of every form: what they become, and the exact words for what cannot be used."""

import json
from typing import Any

import pytest

from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.policy import DatasetPolicy, SplitSettings, load_policy
from ft_assets.workers.datasets.forms.parse import parse_lines, parse_slowly
from ft_assets.workers.datasets.forms.turns import to_messages
from ft_resources.errors import BadRecipe
from tests.workers.datasets.forms.rows import CALL, HI, bad, one, parse, turns

PARSED = '[{"id":"c1","type":"function","function":{"name":"add","arguments":{"a":1,"b":[2.5,"\u00fc"]}}}]'


@pytest.mark.parametrize(
    ("row", "form"),
    [
        ({"messages": HI}, "messages"),
        ({"prompt": "Hi", "completion": "Hello"}, "prompt/completion"),
        ({"prompt": HI[:1], "completion": HI[1:]}, "prompt/completion"),
        ({"instruction": "Hi", "input": None, "output": "Hello"}, "alpaca"),
        ({"instruction": "Hi", "input": " ", "output": "Hello", "text": "Hi Hello"}, "alpaca"),
        ({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}, "sharegpt"),
        ({"conversations": HI, "messages": None}, "sharegpt"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}, HI[1]]}, "messages"),
    ],
)
def test_every_form_of_chat_gives_the_same_turns(row: dict[str, Any], form: str) -> None:
    assert one(row)["messages"] == HI
    assert parse(row).forms == {form: 1}


def test_a_system_text_becomes_the_first_turn() -> None:
    system = turns(("system", "Be kind"))
    assert one({"system": "Be kind", "prompt": "Hi", "completion": "Hello"})["messages"] == system + HI
    assert one({"system": "Be kind", "conversations": HI})["messages"] == system + HI
    assert one({"messages": [{"role": "developer", "content": "Be kind"}, *HI]})["messages"] == system + HI
    assert one({"system": "", "prompt": "Hi", "completion": "Hello"})["messages"] == HI


def test_instruction_and_input_are_one_turn_with_a_blank_line_between() -> None:
    row = {"instruction": "Translate", "input": "Haus", "output": "house"}
    assert one(row)["messages"][0]["content"] == "Translate\n\nHaus"


def test_tool_calls_come_out_in_one_shape_however_written() -> None:
    result = {"role": "tool", "content": "3.5"}
    last = {"role": "assistant", "content": "It is 3.5"}
    ask = {"role": "user", "content": "Add"}
    tools = [{"name": "add", "parameters": {}}]
    named = [ask, {"role": "assistant", "content": None, "tool_calls": [CALL]}, {**result, "tool_call_id": "c1"}, last]
    example = one({"messages": named, "tools": tools})
    assert example["tools"] == '[{"type":"function","function":{"name":"add","parameters":{}}}]'
    (call,) = example["messages"][1]["tool_calls"]
    assert call == {**CALL, "function": {"name": "add", "arguments": {"a": 1, "b": [2.5, "\u00fc"]}}}
    assert parse({"messages": named}).examples.column("messages")[0].as_py()[1]["tool_calls"] == PARSED
    old = [ask, {"role": "assistant", "function_call": CALL["function"]}, {**result, "role": "function", "name": "add"}]
    written = json.dumps(CALL["function"])
    sharegpt = [("human", "Add"), ("function_call", written), ("observation", "3.5"), ("gpt", "It is 3.5")]
    without = one({"messages": [*old, last], "functions": tools})
    other = one({"conversations": [{"from": who, "value": said} for who, said in sharegpt], "tools": json.dumps(tools)})
    assert without["messages"][1] == other["messages"][1]
    assert other["messages"][1]["tool_calls"] == [{"type": "function", "function": call["function"]}]
    assert without["tools"] == other["tools"] == example["tools"]
    assert without["messages"][2] == {**result, "name": "add"}


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "Hi", "chosen": "Yes", "rejected": "No"},
        {
            "prompt": turns(("user", "Hi")),
            "chosen": turns(("assistant", "Yes")),
            "rejected": turns(("assistant", "No")),
        },
        {"chosen": turns(("user", "Hi"), ("assistant", "Yes")), "rejected": turns(("user", "Hi"), ("assistant", "No"))},
        {
            "prompt": "Hi",
            "chosen": turns(("user", "Hi"), ("assistant", "Yes")),
            "rejected": turns(("user", "Hi"), ("assistant", "No")),
        },
        {"chosen": "\n\nHuman: Hi\n\nAssistant: Yes", "rejected": "\n\nHuman: Hi\n\nAssistant: No"},
        {"prompt": "\n\nHuman: Hi\n\nAssistant:", "chosen": "Yes", "rejected": "No"},
    ],
)
def test_every_form_of_preference_gives_the_same_prompt_and_answers(row: dict[str, Any]) -> None:
    example = one(row)
    assert example["messages"] == turns(("user", "Hi"))
    assert (example["chosen"], example["rejected"]) == (turns(("assistant", "Yes")), turns(("assistant", "No")))


def test_text_of_a_book_keeps_its_page_and_its_source_as_group() -> None:
    example = one({"text": "Call me Ishmael.", "source": "book", "page": 3})
    assert (example["text"], example["group"], example["page"]) == ("Call me Ishmael.", "book", 3)
    own = parse({"text": "Call me Ishmael.", "source": "web"})
    assert own.examples.column("group").to_pylist() == [""]
    assert own.unused == {"source": 1}


def test_group_kind_and_unused_fields_are_noted() -> None:
    row = {"prompt": "a", "completion": "b", "source": 7, "label": "greeting", "id": 3, "a b": 1, "none": None}
    settings = {"group_by": "source", "fields": (("kind", "label"),)}
    example = one(row, **settings)
    assert (example["group"], example["kind"]) == ("7", "greeting")
    assert parse(row, **settings).unused == {"(other fields)": 1, "id": 1}


def test_fields_are_mapped_as_the_policy_says() -> None:
    policy = DatasetPolicy(fields={"prompt": "question", "completion": "answer"}, split=SplitSettings(group_by="id"))
    settings = FormSettings.of(policy)
    parsed = parse_lines(b'{"question": "Hi", "answer": "Hello", "id": "x"}\n', settings, ended=True)
    assert to_messages(parsed.examples.column("messages")[0].as_py()) == HI
    assert bad({"question": "a"}, form="prompt/completion", fields=settings.fields)[1:] == (
        "completion",
        "this field is missing",
    )
    with pytest.raises(BadRecipe, match=r"'promt' is not a field of any form; did you mean 'prompt'\?"):
        FormSettings(fields=(("promt", "question"),))
    with pytest.raises(BadRecipe, match="both 'completion' and 'prompt' are mapped to the upload's field 'x'"):
        FormSettings(fields=(("completion", "x"), ("prompt", "x")))


def test_several_fields_of_the_upload_make_one_text_with_blank_lines_between_them() -> None:
    settings = FormSettings.of(load_policy("fields: {prompt: [subject, body], completion: team}", "dataset.yaml"))
    rows = [
        {"subject": "Rain", "body": "It rains in.", "team": "roof"},
        {"subject": "Sun", "body": " ", "team": "none"},
    ]
    rows += [{"body": None, "subject": "Hail", "team": "roof"}]
    parsed = parse_lines("\n".join(map(json.dumps, rows)).encode(), settings, ended=True)
    asked = [turns[0]["content"] for turns in parsed.examples.column("messages").to_pylist()]
    assert asked == ["Rain\n\nIt rains in.", "Sun", "Hail"]
    assert parsed.unused == {}


def test_a_whole_number_is_an_answer_as_in_a_csv() -> None:
    for row in ({"prompt": "a", "completion": 3}, {"instruction": "a", "output": 3}):
        assert one(row)["messages"][-1] == {"role": "assistant", "content": "3"}
    assert bad({"prompt": "a", "completion": True})[1:] == ("completion", "this should be text, not true or false")


def test_a_last_turn_of_the_user_is_left_out_and_counted() -> None:
    thanks = {"role": "user", "content": "Thanks!"}
    row = {"messages": [*HI, thanks]}
    spoken = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]
    parsed = parse(row, {"messages": HI}, {"conversations": [*spoken, {"from": "human", "value": "Thanks!"}]})
    assert (parsed.unanswered, parsed.rows, parsed.bad.num_rows) == (2, 3, 0)
    assert one(row)["messages"] == HI
    assert one({**row, "label": False}, form="messages/label")["rejected"] == HI[1:]
    assert bad({**row, "response": "You're welcome."}) == (
        "role_order",
        "",
        "the last turn is 'user', and its answer may be in another field ('response')",
    )


def _thinking(field: str, **more: Any) -> dict[str, Any]:
    return {"messages": [HI[0], {**HI[1], field: "Greet.", **more}]}


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [HI[0], {"role": "assistant", "content": "<think>\nGreet.\n</think>\n\nHello"}]},
        _thinking("reasoning_content"),
        _thinking("reasoning", reasoning_content="Greet.", annotations=[], refusal=None),
        _thinking("thinking"),
        {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello", "reasoning": "Greet."}]},
        _thinking("x", x=None, content=[{"type": "thinking", "thinking": "Greet."}, {"type": "text", "text": "Hello"}]),
        {
            "request": {"messages": HI[:1]},
            "response": {"choices": [{"message": {**HI[1], "reasoning_content": "Greet.\n"}}]},
        },
    ],
)
def test_thoughts_of_an_answer_are_learned_wherever_they_stand(row: dict[str, Any]) -> None:
    assert one(row)["messages"] == [HI[0], {"role": "assistant", "content": "<think>\nGreet.\n</think>\n\nHello"}]


def test_thoughts_before_a_tool_call_and_in_a_pair_are_learned() -> None:
    called = {"role": "assistant", "content": None, "reasoning_content": "Add.", "tool_calls": [CALL]}
    result = {"role": "tool", "content": "3.5", "tool_call_id": "c1"}
    said = one({"messages": [HI[0], called, result, HI[1]]})["messages"]
    assert (said[1]["content"], said[3]) == ("<think>\nAdd.\n</think>\n\n", HI[1])
    pair = one({"prompt": HI[:1], "chosen": [{**HI[1], "reasoning": "Greet."}], "rejected": HI[1:]})
    assert pair["chosen"][0]["content"] == "<think>\nGreet.\n</think>\n\nHello"


@pytest.mark.parametrize(
    ("row", "field", "problem"),
    [
        ({"a": "x", "b": 7, "completion": "y"}, "b", "only texts can be joined, and this is a number"),
        ({"a": " ", "b": None, "completion": "y"}, "prompt", "this text is empty"),
        (
            {"a": "x", "b": "z", "prompt": "w", "completion": "y"},
            "prompt",
            "fields joins other columns into this field, and the row has it too: list it among them, or ignore it",
        ),
    ],
)
def test_fields_that_cannot_be_joined_are_named(row: dict[str, Any], field: str, problem: str) -> None:
    assert bad(row, joined=(("prompt", ("a", "b")),))[1:] == (field, problem)


def test_a_field_that_is_joined_is_used_once_and_not_ignored() -> None:
    with pytest.raises(BadRecipe, match="both 'system' and 'prompt' are mapped to the upload's field 'a'"):
        FormSettings(fields=(("system", "a"),), joined=(("prompt", ("a", "b")),))
    with pytest.raises(BadRecipe, match="the upload's field 'b' is both ignored and used"):
        FormSettings(joined=(("prompt", ("a", "b")),), ignore=("b",))


def test_a_kind_that_is_mapped_to_another_field_is_that_field_only() -> None:
    row = json.dumps({"text": "The roof leaks.", "kind": "roof"}).encode()
    mapped = FormSettings(fields=(("prompt", "text"), ("completion", "kind")))
    assert parse_lines(row, mapped, ended=True).examples.column("kind").to_pylist() == [""]
    assert parse_slowly(row, mapped, ended=True).examples.column("kind").to_pylist() == [""]


def test_a_field_of_the_upload_is_never_read_twice_into_one_example() -> None:
    for fields in ((("prompt", "completion"),), (("system", "prompt"),)):
        with pytest.raises(BadRecipe, match=r"is mapped to the upload's field '\w+', which is already read as '\w+'"):
            FormSettings(fields=fields)
    swapped = FormSettings(fields=(("completion", "prompt"), ("prompt", "completion")))
    parsed = parse_lines(b'{"prompt": "Hello", "completion": "Hi"}\n', swapped, ended=True)
    assert to_messages(parsed.examples.column("messages")[0].as_py()) == HI
    FormSettings(fields=(("kind", "prompt"), ("prompt", "instruction")))


def test_texts_are_normalised_and_counted_without_touching_what_carries_meaning() -> None:
    said = "e\u0301\r\nA\rB\x0cC\x00D\u200d\u200c\ufeff\t\u212b"
    parsed = parse({"text": "\ufeff" + said}, {"text": "plain"})
    assert parsed.examples.column("text")[0].as_py() == "\u00e9\nA\nB\nCD\u200d\u200c\ufeff\t\u00c5"
    assert parsed.normalized == 1


def test_blank_lines_count_but_give_no_row() -> None:
    parsed = parse(b'{"text": "a"}\r', b"", b" \t", b'{"text": "b"}', b"")
    assert (parsed.examples.column("row").to_pylist(), parsed.rows) == ([1, 4], 2)


def test_a_string_alone_is_a_text() -> None:
    parsed = parse_lines(b'"A story."\n{"text": "Another."}\n""\n', FormSettings(), ended=True)
    assert parsed.examples.column("text").to_pylist() == ["A story.", "Another."]
    assert parsed.bad.column("row").to_pylist() == [3]
