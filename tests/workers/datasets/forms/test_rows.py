"""Rows of every form: what they become, and the exact words for what cannot be used."""

import json
from typing import Any

import pytest

from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.policy import DatasetPolicy, SplitSettings, load_policy
from ft_assets.workers.datasets.forms.parse import Parsed, parse_lines, parse_slowly
from ft_assets.workers.datasets.forms.reasons import REASONS, Reason
from ft_assets.workers.datasets.forms.turns import to_messages
from ft_resources.errors import BadRecipe

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": [2.5, "\u00fc"]}'}}
PARSED = '[{"id":"c1","type":"function","function":{"name":"add","arguments":{"a":1,"b":[2.5,"\u00fc"]}}}]'


def parse(*rows: Any, ended: bool = True, **settings: Any) -> Parsed:
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    return parse_lines(b"\n".join(lines), FormSettings(**settings), ended=ended)


def one(row: Any, **settings: Any) -> dict[str, Any]:
    parsed = parse(row, **settings)
    assert parsed.bad.num_rows == 0, parsed.bad.to_pylist()
    (example,) = parsed.examples.to_pylist()
    return {**example, **{name: to_messages(example[name]) for name in ("messages", "chosen", "rejected")}}


def bad(row: Any, ended: bool = True, **settings: Any) -> tuple[str, str, str]:
    parsed = parse(row, ended=ended, **settings)
    assert (parsed.examples.num_rows, parsed.rows, parsed.forms) == (0, 1, {})
    (problem,) = parsed.bad.to_pylist()
    return problem["reason"], problem["field"], problem["problem"]


def turns(*said: tuple[str, str]) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in said]


def chat(*roles: str) -> dict[str, Any]:
    return {"messages": turns(*((role, f"turn {index}") for index, role in enumerate(roles)))}


MARKS = "this text has more than 30 combining marks in sequence; no writing needs so many"
HI = turns(("user", "Hi"), ("assistant", "Hello"))


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


@pytest.mark.parametrize(
    ("row", "field", "problem"),
    [
        ({"a": "x", "b": 7, "completion": "y"}, "b", "only texts can be joined, and this is a number"),
        ({"a": " ", "b": None, "completion": "y"}, "prompt", "this text is empty"),
        (
            {"a": "x", "b": "z", "prompt": "w", "completion": "y"},
            "prompt",
            "the row has this field beside the columns that fields joins: name it among them, or ignore it",
        ),
    ],
)
def test_fields_that_cannot_be_joined_are_named(row: dict[str, Any], field: str, problem: str) -> None:
    assert bad(row, joined=(("prompt", ("a", "b")),))[1:] == (field, problem)


def test_a_field_that_is_joined_is_used_once_and_not_ignored() -> None:
    with pytest.raises(BadRecipe, match="both 'system' and 'prompt' are mapped to the upload's field 'a'"):
        FormSettings(fields=(("system", "a"),), joined=(("prompt", ("a", "b")),))
    with pytest.raises(BadRecipe, match="the upload's field 'b' is ignored and used"):
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


def test_bad_rows_stand_in_their_order_between_good_ones() -> None:
    parsed = parse({"text": "a"}, b"{", {"text": "c\x00"}, {"text": ""}, chat("user", "assistant"))
    assert parsed.examples.column("row").to_pylist() == [1, 3, 5]
    assert parsed.bad.column("row").to_pylist() == [2, 4]
    assert parsed.forms == {"messages": 1, "text": 2}


@pytest.mark.parametrize(
    ("line", "reason", "problem"),
    [
        (b'{"a": "\xe4"}', "not_utf8", "byte 8 of the row (0xe4) is not UTF-8"),
        (b"a", "not_json", "the row is not valid JSON at character 1 (Expecting value)"),
        (b'{"a": 1} {"a": 2}', "not_json", "the row is not valid JSON at character 10 (Extra data)"),
        (b'{"a": "\x00"}', "not_json", "the row is not valid JSON at character 8 (Invalid control character at)"),
        (b"[1]", "not_json", "the row is JSON but not an object ({\u2026})"),
        (b'{"a": NaN}', "not_json", "the row has NaN, which is not JSON"),
        (b'{"a": -Infinity}', "not_json", "the row has -Infinity, which is not JSON"),
        (b'{"a": 1e999}', "not_json", "the row has a number that is too large"),
        (b'{"a": {"b": 1, "b": 2}}', "not_json", "an object of the row has the same key twice"),
        (b'{"a": ' + b"[" * 100_000, "not_json", "the row's JSON is nested too deeply"),
        (b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", "not_json", "the row's JSON is nested too deeply"),
        (b'{"a": ' + b"1" * 5000 + b"}", "not_json", "the row has a number with too many digits"),
        (b'{"text": "' + b"x" * (16 << 20) + b'"}', "too_long", "the row is longer than 16 MiB"),
    ],
)
def test_a_line_that_is_no_object_is_a_bad_row(line: bytes, reason: str, problem: str) -> None:
    assert bad(line) == (reason, "", problem)


def test_a_string_alone_is_a_text() -> None:
    parsed = parse_lines(b'"A story."\n{"text": "Another."}\n""\n', FormSettings(), ended=True)
    assert parsed.examples.column("text").to_pylist() == ["A story.", "Another."]
    assert parsed.bad.column("row").to_pylist() == [3]


def test_a_line_cut_off_at_the_end_of_the_file_is_called_so() -> None:
    cut = "; the file ends here without a line end, so it may have been cut off"
    problem = "the row is not valid JSON at character 7 (Unterminated string starting at)"
    assert bad(b'{"a": "b', ended=False) == ("not_json", "", problem + cut)
    assert bad(b'{"a": "b', ended=True) == ("not_json", "", problem)


def calls(*after: dict[str, Any], call: Any = CALL) -> dict[str, Any]:
    ask = [{"role": "user", "content": "Add"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    return {"messages": [*ask, *after]}


@pytest.mark.parametrize(
    ("row", "reason", "field", "problem"),
    [
        ({"promt": "a", "completion": "b"}, "unknown_schema", "", "the row has 'promt'; did you mean 'prompt'?"),
        (
            {"text": "a", "instruction": "b"},
            "unknown_schema",
            "",
            "the row has text beside instruction, so its form cannot be told",
        ),
        (
            {"x": 1, "a secret sentence": 2},
            "unknown_schema",
            "",
            "the row's fields (x and 1 more) fit none of: messages; conversations; chosen and rejected; prompt and "
            "completion; instruction and output; text",
        ),
        ({"prompt": 3, "completion": "b"}, "wrong_type", "prompt", "this should be text, not a number"),
        ({"prompt": "a", "completion": None}, "wrong_type", "completion", "this should be text, not null"),
        ({"prompt": "a", "completion": " \n\u200b"}, "empty_text", "completion", "this text is empty"),
        (
            {"prompt": [], "completion": "b"},
            "wrong_type",
            "completion",
            "this should be a list of turns as prompt is, not text",
        ),
        (
            {"prompt": "a", "completion": "\ud800"},
            "bad_text",
            "completion",
            "this text holds half of a surrogate pair (\\ud800 to \\udfff)",
        ),
        ({"prompt": "a", "completion": "a" + "\u0301\u0323" * 16}, "bad_text", "completion", MARKS),
        ({"messages": [{"role": "user", "content": "\u0f73" * 31}, HI[1]]}, "bad_text", "messages[0].content", MARKS),
        ({"text": "a", "source": "\u0344" * 31, "page": 1}, "bad_text", "source", MARKS),
        ({"messages": []}, "wrong_type", "messages", "this should be a list of turns, with at least one in it"),
        ({"messages": ["a"]}, "wrong_type", "messages[0]", "a turn should be an object with role and content"),
        ({"messages": [{"role": "user"}]}, "wrong_type", "messages[0].content", "this field is missing"),
        (
            {"messages": [{"role": ["user"], "content": "a"}]},
            "wrong_type",
            "messages[0].role",
            "the role should be one of system, user, assistant, tool",
        ),
        (
            {"messages": [{"role": "human", "content": "a"}]},
            "wrong_type",
            "messages[0].role",
            "the role should be one of system, user, assistant, tool; did you mean 'user'?",
        ),
        (
            {"messages": [{"role": "assistant", "content": "a", "reasoning": "b"}]},
            "wrong_type",
            "messages[0]",
            "a turn has role, content, tool_calls, tool_call_id and name, and nothing else ('reasoning')",
        ),
        (
            chat("user", "assistant", "assistant"),
            "role_order",
            "messages[2].role",
            "'assistant' stands where 'user' belongs (after 'assistant')",
        ),
        (
            chat("assistant", "user"),
            "role_order",
            "messages[0].role",
            "'assistant' stands where 'user' belongs (at the start)",
        ),
        (
            chat("user", "developer", "assistant"),
            "role_order",
            "messages[1].role",
            "'developer' means 'system', and stands at the start only",
        ),
        (
            chat("system", "user"),
            "role_order",
            "messages[1].role",
            "the last turn is 'user'; it should be the assistant's, which is what is learned",
        ),
        (
            calls({"role": "user", "content": "And?"}),
            "role_order",
            "messages[2].role",
            "'user' stands where 'tool' belongs (after 'assistant')",
        ),
        (
            calls({"role": "tool", "content": "3", "tool_call_id": "c2"}),
            "tool_calls",
            "messages[2].tool_call_id",
            "no open tool call before this turn has this id",
        ),
        (
            calls(call={"function": {"name": "f", "arguments": "{'a': 1}"}}),
            "not_json",
            "messages[1].tool_calls[0].function.arguments",
            "this text is not valid JSON at character 2 (Expecting property name enclosed in double quotes)",
        ),
        (
            {"prompt": "a", "chosen": "b", "rejected": "b"},
            "same_answers",
            "chosen",
            "the chosen answer is the same as the rejected one",
        ),
        (
            {"chosen": "b", "rejected": "c"},
            "wrong_type",
            "chosen",
            "without a prompt, this should be a whole conversation: turns, or a text '\\n\\nHuman: \u2026'",
        ),
        (
            {"chosen": HI, "rejected": [*HI, *HI]},
            "role_order",
            "chosen[1]",
            "one of chosen and rejected is the beginning of the other; they should part at the assistant's turn",
        ),
        (
            {"chosen": [*HI, *HI], "rejected": [*HI, {"role": "user", "content": "No"}, HI[1]]},
            "role_order",
            "chosen[2].role",
            "chosen and rejected part at a turn of 'user'; only the assistant's are compared",
        ),
    ],
)
def test_a_bad_row_is_named_by_its_field(row: dict[str, Any], reason: str, field: str, problem: str) -> None:
    assert bad(row) == (reason, field, problem)


def test_a_row_without_its_group_is_bad() -> None:
    problem = "split.group_by names this field, and this row has no text or whole number in it"
    assert bad({"prompt": "a", "completion": "b", "source": True}, group_by="source") == ("no_group", "source", problem)


def test_every_reason_has_its_words() -> None:
    assert set(REASONS) == set(Reason)
