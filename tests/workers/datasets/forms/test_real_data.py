"""Real public data through parse_lines, where FT_REAL_DATA names the folder that holds it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.workers.datasets.forms.guesses import MAX_SAMPLE, guess_columns
from ft_assets.workers.datasets.forms.parse import Parsed, parse_lines, parse_slowly

pytestmark = [
    pytest.mark.realdata,
]


DOLLY = "dolly_6400/google_flan-t5-small_decode_output.jsonl"


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


@pytest.mark.parametrize(
    ("name", "form", "fields", "most_bad", "problems"),
    [
        ("gsm8k/train.jsonl", "auto", {"prompt": "question", "completion": "answer"}, 0, set()),
        ("gsm8k/train.jsonl", "auto", {}, 1, {"unknown_schema"}),
        (DOLLY, "auto", {}, 1, {"unknown_schema"}),
        (DOLLY, "alpaca", {"output": "text"}, 0.01, None),
        (
            *(DOLLY, "preference", {"prompt": "instruction", "chosen": "text", "rejected": "decoded"}, 0.03),
            {"same_answers", "empty_text"},
        ),
        (
            "hh_rlhf_harmless_test/harmless-base/test.jsonl",
            "auto",
            {},
            0.1,
            {"same_answers", "empty_text", "role_order"},
        ),
        ("p3_permissive/p3_permissive.jsonl", "auto", {}, 0.01, None),
    ],
)
def test_real_rows_are_read_in_the_form_they_have(
    name: str, form: str, fields: dict[str, str], most_bad: float, problems: set[str] | None
) -> None:
    parsed = parse(load(name), form, **fields)
    assert parsed.examples.num_rows >= (1 - most_bad) * parsed.rows
    assert bool(parsed.examples.num_rows) == (most_bad < 1)
    assert parsed.rows > 1000
    assert problems is None or reasons(parsed) <= problems


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
