"""Real public data through curation, where FT_REAL_DATA names the folder that holds it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ft_assets.datasets.policy import DatasetPolicy
from ft_assets.datasets.versions import DatasetVersion
from ft_resources.artifacts import Artifacts
from ft_resources.errors import BadData
from tests.datasets.conftest import WriteRows, run_curation

pytestmark = [
    pytest.mark.realdata,
    pytest.mark.skipif("FT_REAL_DATA" not in os.environ, reason="FT_REAL_DATA is not set"),
]
Add = Callable[..., DatasetVersion]


def lines_of(name: str) -> list[dict[str, object]]:
    text = (Path(os.environ["FT_REAL_DATA"]) / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_gsm8k_keeps_every_row(add: Add, write: WriteRows, artifacts: Artifacts, tmp_path: Path) -> None:
    rows = [{"prompt": row["question"], "completion": row["answer"]} for row in lines_of("gsm8k/train.jsonl")]
    artifact = run_curation(artifacts, str(add(write(rows)).key), tmp_path)
    assert (sum(artifact.facts["rows"].values()), artifact.facts["dropped"]) == (7473, {})


def test_dolly_loses_only_what_the_facts_count(
    add: Add, write: WriteRows, artifacts: Artifacts, tmp_path: Path
) -> None:
    name = "dolly_6400/google_flan-t5-small_decode_output.jsonl"
    rows = [{"instruction": row["instruction"], "output": row["text"]} for row in lines_of(name)]
    artifact = run_curation(artifacts, str(add(write(rows), DatasetPolicy(on_bad_row="drop")).key), tmp_path)
    kept = sum(artifact.facts["rows"].values())
    assert kept + sum(artifact.facts["dropped"].values()) == len(rows)
    assert kept > 0.9 * len(rows)


def test_a_file_in_another_form_is_refused_with_what_to_do(add: Add) -> None:
    with pytest.raises(BadData, match=r"cannot be read\n  What to do: Save it as JSON lines"):
        add(Path(os.environ["FT_REAL_DATA"]) / "gpteacher/Codegen/codegen-instruct.json")
    with pytest.raises(BadData, match=r"row 1: the row's fields \(question, answer\) fit none of"):
        add(Path(os.environ["FT_REAL_DATA"]) / "gsm8k/test.jsonl")
