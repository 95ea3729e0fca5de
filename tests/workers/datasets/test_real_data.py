"""Real public data through the whole curation, where FT_REAL_DATA names the folder that holds it.

The counts were looked at by eye once: what is left out below is what a reader would leave out.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks import contamination
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.reporting.report import DatasetReport
from ft_resources.artifacts import Artifacts
from ft_resources.errors import BadData
from ft_resources.store import Store
from tests.workers.datasets.conftest import Add, CurateFiles, Row, WriteRows, register_suite, run_curation

pytestmark = [
    pytest.mark.realdata,
]
GSM8K = DatasetPolicy(fields={"prompt": "question", "completion": "answer"})


def real(name: str) -> Path:
    return Path(os.environ["FT_REAL_DATA"]) / name


def lines_of(name: str) -> list[Row]:
    return [json.loads(line) for line in real(name).read_text(encoding="utf-8").splitlines()]


def test_dolly_loses_repeated_rows_and_nothing_else(curated: CurateFiles) -> None:
    policy = DatasetPolicy(form="alpaca", fields={"output": "text"})
    made = curated(real("dolly_6400/google_flan-t5-small_decode_output.jsonl"), policy)
    assert made.report.rows_read == 6400
    # The last ones differ from rows of the holdout in a name: of an instrument, of a house in a series of novels.
    assert made.report.dropped == {"duplicate": 3, "near_duplicate": 3, "holdout_overlap": 4}
    assert max(made.report.languages, key=lambda name: made.report.languages[name]) == "en"


def test_gsm8k_keeps_every_row_beside_its_test_set(
    add: Add, write: WriteRows, artifacts: Artifacts, store: Store, curated: CurateFiles, tmp_path: Path
) -> None:
    test = lines_of("gsm8k/test.jsonl")
    items = [{"question": row["question"], "choices": [row["answer"], "0"], "answer": 0} for row in test]
    suite = {"suite:gsm8k.v1": register_suite(store, tmp_path / "suite", "gsm8k.v1", items)}
    clean = run_curation(artifacts, str(add(real("gsm8k/train.jsonl"), GSM8K).key), tmp_path, suite)
    assert (sum(clean.facts["rows"].values()), clean.facts["dropped"]) == (7473, {})
    # A tenth of the test set slipped in, a third of it in capitals.
    leaked = [
        {key: text.upper() if n % 3 == 0 else text for key, text in row.items()} for n, row in enumerate(test[:130])
    ]
    file = write([*lines_of("gsm8k/train.jsonl"), *leaked], "leaked.jsonl")
    found = run_curation(artifacts, str(add(file, GSM8K).key), tmp_path, suite)
    assert found.facts["dropped"] == {"contaminated": 130}
    report = DatasetReport.model_validate_json(found.read("report/report.json"))
    assert report.findings("contamination")[0].notes[0].place.row == 7474
    beside = curated({"upload": [file], "holdout": [real("gsm8k/test.jsonl")]}, GSM8K)
    assert beside.report.splits["holdout"].rows == 1319
    assert sum(beside.report.dropped.values()) == 130
    assert beside.report.examples == 7473 + 1319


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_dressed_test_items_are_found_and_clean_rows_are_not(seed: int) -> None:
    recalls, flagged, clean = contamination.measure(seed)
    assert {name: found / due for name, (found, due) in recalls.items() if found < 0.95 * due} == {}
    assert clean > 19_500
    assert [each for each in flagged if not each.holds][clean // 10_000 :] == []


@pytest.mark.long
def test_p3_keeps_one_of_the_templates_of_each_passage(curated: CurateFiles) -> None:
    made = curated(real("p3_permissive/p3_permissive.jsonl"), DatasetPolicy(on_bad_row="drop"))
    assert made.report.rows_read == 20_010
    assert set(made.report.dropped) == {"near_duplicate", "holdout_overlap"}
    # Near-duplicates are alike in their answers too: another question on the same passage stays.
    assert 5500 < made.report.dropped["near_duplicate"] < 6100
    # Several questions on one passage: those of the holdout's passages are left out.
    assert 1500 < made.report.dropped["holdout_overlap"] < 3000
    assert any("split.group_by" in text for text in made.report.warnings)


def test_hh_rlhf_gives_pairs(curated: CurateFiles) -> None:
    policy = DatasetPolicy(on_bad_row="drop", max_dropped_share=0.1)
    made = curated(real("hh_rlhf_harmless_test/harmless-base/test.jsonl"), policy)
    assert made.report.form == "preference"
    assert made.report.rows_read == 2312
    assert 2280 <= made.report.examples <= 2312
    assert set(made.report.dropped) <= {"empty_text", "role_order", "same_answers", "holdout_overlap"}
    assert all(row["messages"] and row["chosen"] and row["rejected"] for row in made.rows.values())


def test_books_lose_the_licence_that_each_of_them_ends_with(curated: CurateFiles) -> None:
    books = sorted(real("gutenberg_books").glob("*-0.txt"))
    made = curated(books)
    assert made.report.form == "text"
    assert made.report.rows_read > 2000
    # A licence that stays in one book's last page falls to the holdout, and with it go those of the others.
    assert set(made.report.dropped) == {"duplicate", "near_duplicate", "holdout_overlap"}
    assert 30 < sum(made.report.dropped.values()) < 100
    left_out = {file for step in ("duplicates",) for file, _ in made.noted(step, "duplicate")}
    assert len(left_out) > 5
    assert all(len(each) == 1 for each in made.sides_of_groups.values())


def test_bfcl_calls_keep_their_functions_and_arguments(write: WriteRows, curated: CurateFiles) -> None:
    answers = {row["id"]: row for row in lines_of("bfcl/possible_answer/BFCL_v4_live_multiple.json")}
    rows: list[Any] = []
    for row in lines_of("bfcl/BFCL_v4_live_multiple.json"):
        calls = [
            {"function": {"name": name, "arguments": {key: values[0] for key, values in arguments.items()}}}
            for call in answers[row["id"]]["ground_truth"]
            for name, arguments in call.items()
        ]
        messages = [*row["question"][0], {"role": "assistant", "content": None, "tool_calls": calls}]
        rows.append({"messages": messages, "tools": row["function"]})
    made = curated(write(rows), DatasetPolicy(on_bad_row="drop", max_dropped_share=0.1))
    assert made.report.rows_read == len(rows)
    assert made.report.examples > 0.95 * len(rows)
    for (_, number), row in made.rows.items():
        given = json.loads(row["messages"][-1]["tool_calls"])
        assert [call["function"] for call in given] == [
            call["function"] for call in rows[number - 1]["messages"][-1]["tool_calls"]
        ]
        assert row["tools"]


def test_a_file_in_another_form_is_refused_with_what_to_do(add: Add) -> None:
    with pytest.raises(BadData, match=r"row 1: the row's fields \(question, answer\) fit none of"):
        add(real("gsm8k/test.jsonl"))
