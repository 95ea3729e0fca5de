"""Reading and recognising rows: what is accepted, and the exact words for what is not."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.datasets import readers
from ft_assets.datasets.readers import read_jsonl, read_rows
from ft_assets.datasets.rows import BadRow, RawRow, Reason, RowProblem
from ft_assets.datasets.schema import to_example
from ft_resources.errors import BadData
from tests.datasets.conftest import Row, chat


def read(tmp_path: Path, data: bytes) -> list[RawRow | BadRow]:
    path = tmp_path / "data.jsonl"
    path.write_bytes(data)
    return list(read_jsonl(path, "data.jsonl"))


def test_rows_are_numbered_by_line_and_blank_lines_give_none(tmp_path: Path) -> None:
    rows = read(tmp_path, b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"a": "\xc3\xa4"}')
    assert rows == [RawRow(row=1, value={"a": 1}), RawRow(row=4, value={"a": "ä"})]


@pytest.mark.parametrize(
    ("line", "reason", "problem"),
    [
        (b'{"a": "\xe4"}\n', Reason.NOT_UTF8, "byte 8 of the row (0xe4) is not UTF-8"),
        (b"a\n", Reason.NOT_JSON, "the row is not valid JSON at character 1 (Expecting value)"),
        (
            b'{"a": "b',
            Reason.NOT_JSON,
            "the row is not valid JSON at character 7 (Unterminated string starting at); "
            "the file ends here without a line end, so it may have been cut off",
        ),
        (b'{"a": 1} {"a": 2}\n', Reason.NOT_JSON, "the row is not valid JSON at character 10 (Extra data)"),
        (
            b'{"a": "\x00"}\n',
            Reason.NOT_JSON,
            "the row is not valid JSON at character 8 (Invalid control character at)",
        ),
        (b"[1]\n", Reason.NOT_JSON, "the row is JSON but not an object ({…})"),
        (b'{"a": NaN}\n', Reason.NOT_JSON, "the row has NaN, which is not JSON"),
        (b'{"a": {"b": 1, "b": 2}}\n', Reason.NOT_JSON, "an object of the row has the same key twice"),
        (b'{"a": ' + b"[" * 100_000 + b"\n", Reason.NOT_JSON, "the row's JSON is nested too deeply"),
        (b'{"a": ' + b"1" * 5000 + b"}\n", Reason.NOT_JSON, "the row has a number with too many digits"),
    ],
)
def test_a_line_that_is_no_object_is_a_bad_row(tmp_path: Path, line: bytes, reason: Reason, problem: str) -> None:
    (row,) = read(tmp_path, line)
    assert row == BadRow(row=1, field="", reason=reason, problem=problem)


def test_a_row_that_is_too_long_is_skipped_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MAX_ROW_BYTES", 1 << 20)
    rows = read(tmp_path, b'{"a": "' + b"x" * (3 << 20) + b'"}\n{"a": 2}\n')
    assert rows == [
        BadRow(row=1, field="", reason=Reason.TOO_LONG, problem="the row is longer than 1 MiB"),
        RawRow(row=2, value={"a": 2}),
    ]


def test_a_utf16_file_is_refused_as_a_whole(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"^data.jsonl: the file is UTF-16 text, not UTF-8 \(byte 1\)\n"):
        read(tmp_path, '{"a": 1}\n'.encode("utf-16"))


def test_an_ending_that_cannot_be_read_names_those_that_can(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"^data.csv: files ending in '.csv' cannot be read\n.*\.jsonl or \.ndjson"):
        read_rows(tmp_path / "data.csv", "data.csv")


def convert(value: dict[str, Any], group_by: str | None = None) -> Any:
    return to_example(RawRow(row=7, value=value), group_by)


def test_the_three_forms_become_messages() -> None:
    turns = ({"role": "user", "content": "Hi"}, {"role": "assistant", "content": " Hello "})
    assert convert({"messages": list(turns)}).messages == turns
    assert convert({"prompt": "Hi", "completion": " Hello "}).messages == turns
    assert convert({"instruction": "Hi", "input": "", "output": " Hello "}).messages == turns
    assert convert({"instruction": "Hi", "output": " Hello "}).messages == turns
    with_input = convert({"instruction": "Translate", "input": "Haus", "output": "house"})
    assert with_input.messages[0] == {"role": "user", "content": "Translate\n\nHaus"}


def test_group_kind_and_unused_fields_are_noted() -> None:
    example = convert({**chat("user", "assistant"), "source": 7, "kind": "greeting", "id": 3}, group_by="source")
    assert (example.group, example.kind, example.unused) == ("7", "greeting", ("id",))


@pytest.mark.parametrize(
    ("value", "reason", "field", "problem"),
    [
        (
            {"promt": "a", "completion": "b"},
            Reason.UNKNOWN_SCHEMA,
            "",
            "the row has 'promt'; did you mean 'prompt'?",
        ),
        (
            {"x": 1, "a secret sentence": 2},
            Reason.UNKNOWN_SCHEMA,
            "",
            "the row's fields (x) fit none of: messages; prompt and completion; instruction and output",
        ),
        ({"prompt": 3, "completion": "b"}, Reason.WRONG_TYPE, "prompt", "this should be text, not a number"),
        ({"prompt": "a", "completion": None}, Reason.WRONG_TYPE, "completion", "this should be text, not null"),
        ({"prompt": "a", "completion": " \n"}, Reason.EMPTY_TEXT, "completion", "this text is empty"),
        (
            {"prompt": "a", "completion": "\ud800"},
            Reason.BAD_TEXT,
            "completion",
            "this text holds half of a surrogate pair (\\ud800 to \\udfff)",
        ),
        (
            {"messages": []},
            Reason.WRONG_TYPE,
            "messages",
            "this should be a list of turns, with at least two in it",
        ),
        ({"messages": ["a"]}, Reason.WRONG_TYPE, "messages[0]", "a turn should be an object with role and content"),
        ({"messages": [{"role": "user"}]}, Reason.WRONG_TYPE, "messages[0].content", "this field is missing"),
        (
            {"messages": [{"role": ["user"], "content": "a"}]},
            Reason.WRONG_TYPE,
            "messages[0].role",
            "the role should be one of system, user, assistant",
        ),
        (
            {"messages": [{"role": "assistant", "content": "a", "tool_calls": [1]}]},
            Reason.WRONG_TYPE,
            "messages[0]",
            "a turn has role and content and nothing else ('tool_calls')",
        ),
        (
            chat("user", "assistant", "assistant"),
            Reason.ROLE_ORDER,
            "messages[2].role",
            "'assistant' stands where 'user' belongs (after 'assistant')",
        ),
        (
            chat("assistant", "user"),
            Reason.ROLE_ORDER,
            "messages[0].role",
            "'assistant' stands where 'user' belongs (at the start)",
        ),
        (
            chat("user", "system", "assistant"),
            Reason.ROLE_ORDER,
            "messages[1].role",
            "'system' stands where 'assistant' belongs (after 'user')",
        ),
        (
            chat("system", "user"),
            Reason.ROLE_ORDER,
            "messages[1].role",
            "the last turn is 'user'; it should be the assistant's, which is what is learned",
        ),
        (
            {**chat("user", "assistant"), "source": True},
            Reason.NO_GROUP,
            "source",
            "split.group_by names this field, and this row has no text or whole number in it",
        ),
    ],
)
def test_a_bad_row_is_named_by_its_field(value: Row, reason: Reason, field: str, problem: str) -> None:
    with pytest.raises(RowProblem) as error:
        convert(value, group_by="source" if reason is Reason.NO_GROUP else None)
    assert (error.value.reason, error.value.field, error.value.problem) == (reason, field, problem)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_field = st.sampled_from(["messages", "prompt", "completion", "instruction", "input", "output", "kind", "source"])


@given(st.dictionaries(_field | st.text(max_size=5), _json, max_size=6), st.booleans())
def test_any_json_object_is_an_example_or_a_bad_row_and_nothing_else(value: Row, grouped: bool) -> None:
    try:
        example = convert(value, group_by="source" if grouped else None)
    except RowProblem:
        return
    assert example.messages[-1]["role"] == "assistant"
    json.dumps(example.messages, ensure_ascii=False).encode()


@given(st.binary(max_size=300).filter(lambda data: data[:2] not in (b"\xff\xfe", b"\xfe\xff")))
def test_any_bytes_are_read_to_their_end(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    rows = read(tmp_path_factory.mktemp("bytes"), data)
    lines = [number for number, line in enumerate(data.split(b"\n"), 1) if line.strip(b" \t\r\x0b\x0c")]
    assert [row.row for row in rows] == lines or data.startswith(b"\xef\xbb\xbf")
