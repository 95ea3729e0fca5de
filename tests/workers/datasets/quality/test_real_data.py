"""The heuristics on real data: next to nothing of clean data is flagged, and cut answers are."""

import json
import os
from pathlib import Path

import pytest

from ft_assets.settings.dataset.policy import QualitySettings
from ft_assets.workers.datasets.quality.measures import measure
from tests.workers.datasets.quality.made import batch, chat

pytestmark = [
    pytest.mark.realdata,
]


def flagged(file: str, question: str, answer: str) -> dict[str, int]:
    """How many rows of a JSONL file of the real data have each flag."""
    path = Path(os.environ["FT_REAL_DATA"]) / file
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found = measure(*batch([chat(row[answer], row[question]) for row in rows]), QualitySettings())
    return {name: sum(found.column(name).to_pylist()) for name in _FLAGS}


_FLAGS = ("empty_answer", "short", "long", "repetitive", "truncated")


def test_short_and_formulaic_answers_are_not_flagged() -> None:
    assert flagged("gsm8k/train.jsonl", "question", "answer") == dict.fromkeys(_FLAGS, 0)


def test_answers_cut_by_a_length_limit_are_found() -> None:
    # This copy of dolly had its answers cut by a token limit; of those flagged, all that were read do break off.
    found = flagged("dolly_6400/google_flan-t5-small_decode_output.jsonl", "instruction", "text")
    assert 150 < found["truncated"] < 300
    assert found["repetitive"] + found["empty_answer"] < 5
