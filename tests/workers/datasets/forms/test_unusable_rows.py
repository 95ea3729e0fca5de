"""The exact words for rows that cannot be used."""

from typing import Any

import pytest

from ft_assets.workers.datasets.forms.reasons import REASONS, Reason
from tests.workers.datasets.forms.rows import CALL, HI, bad, chat, parse

NO_NAME = "(Expecting property name enclosed in double quotes)"
MARKS = "this text has more than 30 combining marks in sequence; no script uses so many"


def test_bad_rows_stand_in_their_order_between_good_ones() -> None:
    parsed = parse({"text": "a"}, b"{", {"text": "c\x00"}, {"text": ""}, chat("user", "assistant"))
    assert parsed.examples.column("row").to_pylist() == [1, 3, 5]
    assert parsed.bad.column("row").to_pylist() == [2, 4]
    assert parsed.forms == {"messages": 1, "text": 2}


@pytest.mark.parametrize(
    ("line", "reason", "problem"),
    [
        (b'{"a": "\xe4"}', "not_utf8", "byte 8 of the row (0xe4) is not UTF-8"),
        (b'{"a": "\xc0\xaf"}', "not_utf8", "byte 8 of the row (0xc0) is not UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "not_utf8", "byte 8 of the row (0xed) is not UTF-8"),
        (b"\xef\xbb\xbf{}", "not_json", "the row is not valid JSON at character 1 (Expecting value)"),
        (b"{'a': None}", "not_json", f"the row is not valid JSON at character 2 {NO_NAME}"),
        (b'{"a": 1,}', "not_json", f"the row is not valid JSON at character 9 {NO_NAME}"),
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
            "the row has both text and instruction, so its form is ambiguous",
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
        ({"messages": []}, "wrong_type", "messages", "this should be a non-empty list of turns"),
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
            {"messages": [{"role": "assistant", "content": "a", "mood": "b"}]},
            "wrong_type",
            "messages[0]",
            "a turn has role, content, tool_calls, tool_call_id, name and reasoning_content, and nothing else ('mood')",
        ),
        (
            {
                "request": {"messages": HI[:1], "chat_template_kwargs": {"enable_thinking": False}},
                "response": {"choices": [{"message": HI[1]}]},
            },
            "wrong_type",
            "request.chat_template_kwargs",
            "chat template options of a row are not supported, as all rows are rendered alike: remove them",
        ),
        (
            {
                "input": {"messages": HI[:1], "enable_thinking": True},
                "preferred_output": HI[1:],
                "non_preferred_output": [{"role": "assistant", "content": "No."}],
            },
            "wrong_type",
            "input.enable_thinking",
            "chat template options of a row are not supported, as all rows are rendered alike: remove them",
        ),
        (
            {"messages": [{"role": "user", "content": "a", "reasoning": "b"}, HI[1]]},
            "wrong_type",
            "messages[0].reasoning",
            "only the assistant's turns have thoughts",
        ),
        (
            {"messages": [HI[0], {"role": "assistant", "content": "a", "reasoning": "b", "thinking": "c"}]},
            "wrong_type",
            "messages[1]",
            "this turn has its thoughts in two places, and they differ",
        ),
        (
            {"messages": [HI[0], {"role": "assistant", "content": "<think>b</think>a", "reasoning": "b"}]},
            "wrong_type",
            "messages[1]",
            "this turn has thoughts in a separate field, and <think> or </think> in its text as well",
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
            "'developer' is read as 'system', which may only be the first turn",
        ),
        (
            chat("system", "user"),
            "role_order",
            "messages[1].role",
            "the last turn is 'user'; it should be the assistant's, which is trained on",
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
            "no unanswered tool call before this turn has this id",
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
            "one of chosen and rejected is the beginning of the other; they should differ in the assistant's turn",
        ),
        (
            {"chosen": [*HI, *HI], "rejected": [*HI, {"role": "user", "content": "No"}, HI[1]]},
            "role_order",
            "chosen[2].role",
            "chosen and rejected differ in a turn of 'user'; only the assistant's are compared",
        ),
    ],
)
def test_a_bad_row_is_named_by_its_field(row: dict[str, Any], reason: str, field: str, problem: str) -> None:
    assert bad(row) == (reason, field, problem)


def test_a_row_without_its_group_is_bad() -> None:
    problem = "split.group_by needs a text or a whole number in this field"
    assert bad({"prompt": "a", "completion": "b", "source": True}, group_by="source") == ("no_group", "source", problem)


def test_every_reason_has_its_words() -> None:
    assert set(REASONS) == set(Reason)
