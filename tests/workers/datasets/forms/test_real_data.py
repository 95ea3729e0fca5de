"""Real public data through parse_lines, where FT_REAL_DATA names the folder that holds it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.workers.datasets.forms.guesses import MAX_SAMPLE, guess_columns
from ft_assets.workers.datasets.forms.parse import Parsed, parse_lines, parse_slowly
from ft_assets.workers.datasets.forms.turns import to_messages

pytestmark = [
    pytest.mark.realdata,
    pytest.mark.skipif("FT_REAL_DATA" not in os.environ, reason="FT_REAL_DATA is not set"),
]


def load(name: str) -> bytes:
    return (Path(os.environ["FT_REAL_DATA"]) / name).read_bytes()


def parse(lines: bytes, form: str = "auto", **fields: str) -> Parsed:
    settings = FormSettings(form=form, fields=tuple(fields.items()))
    parsed = parse_lines(lines, settings, ended=True)
    few = b"\n".join(lines.split(b"\n")[:500])
    slow, fast = parse_slowly(few, settings, ended=True), parse_lines(few, settings, ended=True)
    assert slow.examples.equals(fast.examples)
    assert (slow.bad, slow.unused) == (fast.bad, fast.unused)
    return parsed


def reasons(parsed: Parsed) -> set[str]:
    return set(parsed.bad.column("reason").to_pylist())


def as_lines(rows: list[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("gsm8k/train.jsonl", {"prompt": "question", "completion": "answer"}),
        ("gpteacher/Codegen/codegen-instruct.json", {"output": "response"}),
        ("gpteacher/Roleplay/roleplay-simple-deduped-roleplay-instruct.json", {"output": "response"}),
    ],
)
def test_lines_guessed_for_real_columns_read_every_row(name: str, fields: dict[str, str]) -> None:
    lines = as_lines(json.loads(load(name))) if name.endswith(".json") else load(name)
    rows = [json.loads(line) for line in lines.splitlines()[:MAX_SAMPLE]]
    guess = guess_columns(rows, FormSettings())
    assert guess is not None
    assert guess.fields == fields
    assert "unknown_schema" not in reasons(parse(lines, guess.form, **fields))


def test_gsm8k() -> None:
    parsed = parse(load("gsm8k/train.jsonl"), prompt="question", completion="answer")
    assert (parsed.examples.num_rows, parsed.bad.num_rows) == (7473, 0)
    assert parse(load("gsm8k/train.jsonl")).rows == 7473


def test_dolly_with_its_answers_and_as_preferences() -> None:
    lines = load("dolly_6400/google_flan-t5-small_decode_output.jsonl")
    assert reasons(parse(lines)) == {"unknown_schema"}
    sft = parse(lines, "alpaca", output="text")
    assert sft.examples.num_rows > 0.99 * sft.rows
    pairs = parse(lines, "preference", prompt="instruction", chosen="text", rejected="decoded")
    assert pairs.examples.num_rows > 0.97 * pairs.rows
    assert reasons(pairs) <= {"same_answers", "empty_text"}


def test_hh_rlhf() -> None:
    parsed = parse(load("hh_rlhf_harmless_test/harmless-base/test.jsonl"))
    assert parsed.rows == 2312
    assert parsed.examples.num_rows > 0.9 * parsed.rows
    assert reasons(parsed) <= {"same_answers", "empty_text", "role_order"}


def test_p3() -> None:
    parsed = parse(load("p3_permissive/p3_permissive.jsonl"))
    assert parsed.examples.num_rows > 0.99 * parsed.rows
    assert parsed.unused == {"template": parsed.examples.num_rows}


def test_bfcl_tool_calls() -> None:
    questions = [json.loads(line) for line in load("bfcl/BFCL_v4_live_multiple.json").splitlines()]
    answers = {
        row["id"]: row for row in map(json.loads, load("bfcl/possible_answer/BFCL_v4_live_multiple.json").splitlines())
    }
    rows = []
    for row in questions:
        calls = [
            {"function": {"name": name, "arguments": {key: values[0] for key, values in arguments.items()}}}
            for call in answers[row["id"]]["ground_truth"]
            for name, arguments in call.items()
        ]
        messages = [*row["question"][0], {"role": "assistant", "content": None, "tool_calls": calls}]
        rows.append({"messages": messages, "tools": row["function"]})
    parsed = parse(as_lines(rows))
    assert parsed.examples.num_rows > 0.95 * len(rows)
    last = to_messages(parsed.examples.column("messages")[0].as_py())[-1]
    assert last["tool_calls"] == [{"type": "function", **call} for call in rows[0]["messages"][-1]["tool_calls"]]


def test_oasst_trees_as_preferences() -> None:
    rows = []
    for tree in map(json.loads, load("oasst_100/en_100_tree.jsonl").splitlines()):
        replies = sorted(tree["prompt"]["replies"], key=lambda reply: reply.get("rank") or 0)
        if len(replies) > 1:
            rows.append(
                {"prompt": tree["prompt"]["text"], "chosen": replies[0]["text"], "rejected": replies[-1]["text"]}
            )
    parsed = parse(as_lines(rows))
    assert parsed.examples.num_rows > 0.9 * len(rows)
    texts = parse(load("oasst_100/en_100_text.jsonl"))
    assert (texts.forms, reasons(texts)) == ({"text": texts.rows}, set())
    assert parse(load("oasst_100/en_100_tree.jsonl")).examples.num_rows == 0
