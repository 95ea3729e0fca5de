"""Every documented layout is read as the page says, and parts of content say what they say as one text."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.site.build import reference_pages
from docs.site.layouts import LAYOUTS, Layout, read
from ft_assets.settings.catalogue.forms import ROW_FORMS
from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.policy import load_policy
from ft_assets.workers.datasets.forms.parse import Parsed, parse_lines
from tests.workers.datasets.forms.test_fast import assert_same


def parse(row: dict[str, Any], form: FormSettings | None = None) -> Parsed:
    return assert_same(json.dumps(row).encode(), form or FormSettings())


def refused(row: dict[str, Any]) -> tuple[str, str]:
    (bad,) = parse(row).bad.to_pylist()
    return bad["field"], bad["problem"]


def chat(*contents: Any, **fields: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    turns = [{"role": roles[place % 2], "content": said} for place, said in enumerate(contents)]
    return {"messages": turns, **fields}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_a_documented_row_becomes_what_the_page_says_and_loses_no_field(layout: Layout) -> None:
    assert read(layout) == layout.becomes
    form = FormSettings.of(load_policy(layout.policy, "dataset.yaml"))
    assert parse(dict(layout.row), form).unused == {}


def test_every_row_form_has_a_sample_and_every_sample_is_on_the_page() -> None:
    forms = {
        name
        for layout in LAYOUTS
        for name in parse(dict(layout.row), FormSettings.of(load_policy(layout.policy, ""))).forms
    }
    assert forms == set(ROW_FORMS)
    page = reference_pages()["reference/layouts.md"]
    assert all(f"## {layout.name}\n" in page for layout in LAYOUTS)


_text = st.text(st.characters(codec="utf-8"), max_size=12)


@given(st.lists(_text, min_size=1, max_size=4), st.lists(_text, min_size=1, max_size=4))
def test_parts_of_text_are_the_joined_text(asked: list[str], said: list[str]) -> None:
    def parts(texts: list[str]) -> list[dict[str, str]]:
        return [{"type": "text", "text": text} for text in texts]

    whole, cut = parse(chat("".join(asked), "".join(said))), parse(chat(parts(asked), parts(said)))
    assert cut.examples.equals(whole.examples)
    assert (cut.normalized, cut.rows) == (whole.normalized, whole.rows)


_USE = {"type": "tool_use", "id": "t1", "name": "find", "input": {"what": "x"}}
_RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "3"}]}
_SAID = {"type": "text", "text": "It is 3."}


@given(st.permutations(["t1", "t2", "t3"]), st.integers(1, 3))
def test_tool_parts_of_anthropic_are_the_tool_calls_of_openai(ids: list[str], count: int) -> None:
    ids = ids[:count]
    uses, results = [{**_USE, "id": name} for name in ids], [{**_RESULT, "tool_use_id": name} for name in ids]
    theirs = parse(chat("Find", [_SAID, *uses], results, "Done"))
    calls = [{"id": name, "type": "function", "function": {"name": "find", "arguments": {"what": "x"}}} for name in ids]
    ours: list[dict[str, Any]] = [
        {"role": "user", "content": "Find"},
        {"role": "assistant", "content": "It is 3.", "tool_calls": calls},
        *({"role": "tool", "content": "3", "tool_call_id": name} for name in ids),
        {"role": "assistant", "content": "Done"},
    ]
    assert theirs.examples.num_rows == 1
    assert theirs.examples.equals(parse({"messages": ours}).examples)


@pytest.mark.parametrize(
    ("row", "field", "problem"),
    [
        (
            chat([_SAID, {"type": "image_url", "image_url": {"url": "x"}}], "a"),
            "messages[0].content[1]",
            "a part of type 'image_url' cannot be used; only text, thinking, tool_use and tool_result can",
        ),
        (chat(["a"], "a"), "messages[0].content[0]", "a part of another type cannot be used"),
        (chat("a", [_USE, _SAID]), "messages[1].content[1]", "a turn's text comes before its tool calls, not after"),
        (chat([_USE], "a"), "messages[0].content[0]", "a part of type 'tool_use' belongs in turns of 'assistant'"),
        (
            chat("a", [_USE], [{**_RESULT, "is_error": True}], "b"),
            "messages[2].content[0].is_error",
            "is_error is not supported",
        ),
        (
            chat("a", [_USE], [_RESULT, _SAID], "b"),
            "messages[2].role",
            "'user' stands where 'assistant' belongs (after 'tool')",
        ),
        (chat("a", [_USE], [_SAID, _RESULT], "b"), "messages[2].content[1]", "a turn's tool results come before"),
        (chat([{"type": "text", "text": 3}], "b"), "messages[0].content[0].text", "this should be text, not a number"),
        (chat([], "b"), "messages[0].content", "this should be text, not null"),
    ],
)
def test_parts_that_turns_cannot_hold_are_refused_by_name(row: dict[str, Any], field: str, problem: str) -> None:
    where, words = refused(row)
    assert where == field
    assert words.startswith(problem)


@pytest.mark.parametrize(
    ("row", "form"),
    [
        (chat("a", "b", chosen="b", rejected="c"), "messages"),
        ({"conversations": chat("a", "b")["messages"], "chosen": "b", "rejected": "c"}, "sharegpt"),
        ({"prompt": "a", "instruction": "x", "chosen": "b", "rejected": "c"}, "preference"),
        (
            {"instruction": "x", "chosen": chat("a", "b")["messages"], "rejected": chat("a", "c")["messages"]},
            "preference",
        ),
        ({"input": {"messages": []}, "preferred_output": [], "non_preferred_output": [], "text": "a"}, "text"),
        (chat("a", "b", tools=[{"name": "f", "input_schema": {}}], system="s"), "messages"),
    ],
)
def test_a_row_that_was_read_before_there_were_these_layouts_is_read_as_before(row: dict[str, Any], form: str) -> None:
    parsed = parse(row)
    assert parsed.forms == {form: 1}
    tools = parsed.examples.column("tools")[0].as_py()
    assert ("input_schema" in tools) == ("tools" in row)


def test_a_function_call_in_a_role_is_the_turn_that_sharegpt_has() -> None:
    turns = [
        ("user", "a"),
        ("function_call", '{"name": "f", "arguments": {}}'),
        ("observation", "3"),
        ("assistant", "b"),
    ]
    row = {"messages": [{"role": role, "content": said} for role, said in turns]}
    other = {"conversations": [{"from": role, "value": said} for role, said in turns]}
    assert parse(row).examples.equals(parse(other).examples)


def test_lines_of_a_whole_upload_stay_in_order_whatever_their_layout() -> None:
    rows = [layout.row for layout in LAYOUTS if not layout.policy] * 20
    parsed = parse_lines("\n".join(map(json.dumps, rows)).encode(), FormSettings(), ended=False)
    assert parsed.examples.column("row").to_pylist() == list(range(1, len(rows) + 1))


def logged(message: dict[str, Any] | None, finish: str | None = "stop", **request: Any) -> dict[str, Any]:
    choices = [] if message is None else [{"index": 0, "message": message, "finish_reason": finish}]
    asked = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}], **request}
    return {"request": asked, "response": {"id": "1", "choices": choices}}


def test_a_logged_response_with_calls_keeps_them_and_the_requests_tools() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"what": "x"}'}}
    tool = {"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {}}}}
    message = {"role": "assistant", "content": None, "tool_calls": [call], "annotations": [], "refusal": None}
    (example,) = parse(logged(message, "tool_calls", tools=[tool])).examples.to_pylist()
    assert "find" in example["messages"][1]["tool_calls"]
    assert json.loads(example["tools"])[0]["function"]["name"] == "find"


@pytest.mark.parametrize(
    ("row", "field"),
    [
        (logged({"role": "assistant", "content": "and then"}, "length"), "finish_reason"),
        (logged({"role": "assistant", "content": "…"}, "content_filter"), "finish_reason"),
        (logged(None), "message"),
        (logged({"role": "assistant", "content": None, "refusal": "I cannot"}), "message"),
        ({"request": {"messages": "hi"}, "response": {}}, "request.messages"),
        ({"request": {"messages": []}, "response": {"error": {"code": 500}}}, "message"),
    ],
)
def test_a_logged_request_without_a_whole_answer_is_a_bad_row(row: dict[str, Any], field: str) -> None:
    assert field in refused(row)[0]


def test_request_and_response_as_two_texts_are_not_taken_for_a_log() -> None:
    assert "fit none of" in refused({"request": "hi", "response": "hello"})[1]
