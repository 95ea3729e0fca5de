"""Content keys, prompt keys, flat texts and answers against plain Python."""

import hashlib
import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.workers.datasets.columns import EXAMPLES, TURN
from ft_assets.workers.datasets.forms import plain_keys
from ft_assets.workers.datasets.forms.content_keys import answer_texts, content_keys, flat_texts, prompt_keys
from ft_assets.workers.datasets.forms.parse import parse_lines

FIELDS = [field.name for field in TURN]
EMPTY: dict[str, Any] = {"messages": [], "chosen": [], "rejected": [], "tools": "", "group": "", "kind": ""}


def content_key(example: dict[str, Any]) -> bytes:
    """What the key of a row is, said again in Python."""
    pieces = []

    def add(text: str, trim: bool = False) -> None:
        data = text.encode().strip(b" \t\n") if trim else text.encode()
        pieces.append(len(data).to_bytes(4, "little") + data)

    for column in ("messages", "chosen", "rejected"):
        pieces.append(len(example[column]).to_bytes(4, "little"))
        for turn in example[column]:
            for name in FIELDS:
                add(turn[name], name == "content")
    add(example["text"], True)
    add(example["tools"])
    return hashlib.sha256(b"".join(pieces)).digest()


_words = st.text(st.sampled_from("ab \n\t\u00e9\U0001f600"), max_size=12)
_turn = st.fixed_dictionaries({**dict.fromkeys(FIELDS, _words), "role": st.sampled_from(["user", "assistant"])})
_turns = st.lists(_turn, max_size=3)
_example = st.fixed_dictionaries(
    {
        **dict.fromkeys(("messages", "chosen", "rejected"), _turns),
        **dict.fromkeys(("text", "tools", "group", "kind"), _words),
        "row": st.integers(1, 9),
        "page": st.integers(0, 9),
    }
)


@given(st.lists(_example, max_size=5), st.data())
def test_keys_and_texts_are_those_of_plain_python_in_slices_too(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=EXAMPLES)
    start = data.draw(st.integers(0, len(rows)))
    batch, rows = batch.slice(start), rows[start:]
    assert content_keys(batch).to_pylist() == [content_key(row) for row in rows]
    flat = [
        [turn[name] for column in ("messages", "chosen", "rejected") for turn in row[column] for name in FIELDS[1:3]]
        for row in rows
    ]
    expected = [
        "\n".join(part for part in [*parts, row["text"]] if part) for parts, row in zip(flat, rows, strict=True)
    ]
    assert flat_texts(batch).to_pylist() == expected
    flat_texts(batch).validate(full=True)
    assert len(prompt_keys(batch)) == len(rows)
    assert [each.to_pylist() for each in answer_texts(batch)] == [
        [answer(row, "chosen") for row in rows],
        [answer(row, "rejected") for row in rows],
    ]


@given(st.lists(_example, max_size=5), st.data())
def test_keys_are_the_same_without_a_compiler(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=EXAMPLES).slice(data.draw(st.integers(0, len(rows))))
    assert list(plain_keys.digests(batch)) == content_keys(batch).to_pylist()
    assert list(plain_keys.prompt_hashes(batch)) == prompt_keys(batch).to_pylist()


def test_a_long_prompt_has_the_same_key_without_a_compiler() -> None:
    said = ("A", "a" * 70, "b" * 63, "c", "d" * 8, "e\n")
    rows = [
        {
            **EMPTY,
            "row": 1,
            "page": 0,
            "text": "",
            "messages": [turn(text, role) for text in said[:count] for role in roles],
        }
        for count in range(len(said) + 1)
        for roles in (("user", "assistant"), ("system", "user"), ("assistant",))
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=EXAMPLES)
    assert list(plain_keys.prompt_hashes(batch)) == prompt_keys(batch).to_pylist()


def turn(content: str, role: str) -> dict[str, str]:
    return {**dict.fromkeys(FIELDS, ""), "role": role, "content": content}


def answer(row: dict[str, Any], which: str) -> str:
    """The ``which`` turns, joined; of a row with neither chosen nor rejected ones, the last turn is as if chosen."""
    turns = row[which]
    if which == "chosen" and not (row["chosen"] or row["rejected"]):
        turns = row["messages"][-1:]
    return "\n".join(turn[name] for turn in turns for name in FIELDS[1:3] if turn[name])


def keys_of(*rows: dict[str, Any]) -> list[int]:
    lines = "\n".join(json.dumps(row) for row in rows).encode()
    parsed = parse_lines(lines, FormSettings(), ended=True)
    assert parsed.examples.num_rows == len(rows)
    return prompt_keys(parsed.examples).to_pylist()


def chat(*said: str) -> dict[str, Any]:
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[place % 2], "content": text} for place, text in enumerate(said)]}


def test_rows_with_one_prompt_have_one_key_whatever_the_answer() -> None:
    one, other, preference, third = keys_of(
        {"prompt": "Hi", "completion": "Hello"},
        {"prompt": " Hi\n", "completion": "Good day"},
        {"prompt": "Hi", "chosen": "Hello", "rejected": "What"},
        {"prompt": "Ho", "completion": "Hello"},
    )
    assert one == other == preference != third


def test_a_conversation_that_grows_over_rows_has_one_key_and_a_shared_greeting_does_not() -> None:
    long = "Please explain to me, in a few sentences, how a suspension bridge carries its load."
    first, second = keys_of(chat(long, "So"), chat(long, "So", "And then?", "Then"))
    assert first == second
    greeted, other = keys_of(chat("Hi", "Hello", long, "So"), chat("Hi", "Hello", long[::-1], "So"))
    assert greeted != other


def test_system_texts_and_plain_texts_are_part_of_the_prompt() -> None:
    assert (
        len(set(keys_of({"system": "A", **chat_pair()}, {"system": "B", **chat_pair()}, {"text": "a"}, {"text": "b"})))
        == 4
    )


def chat_pair() -> dict[str, str]:
    return {"prompt": "Go on", "completion": "Yes"}


def test_the_keys_of_an_empty_batch_are_none() -> None:
    empty = pa.RecordBatch.from_pylist([], schema=EXAMPLES)
    assert (len(content_keys(empty)), len(prompt_keys(empty)), len(flat_texts(empty))) == (0, 0, 0)
    assert [len(each) for each in answer_texts(empty)] == [0, 0]
