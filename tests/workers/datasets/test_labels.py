"""Answers that are labels are counted, and what is wrong with them is told by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from ft_assets.api import DatasetReport
from ft_assets.cli.reports import describe_report
from ft_assets.control.identity.review import Review
from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.workers.datasets.forms.parse import parse_lines
from ft_assets.workers.datasets.labels import LabelCounts
from ft_assets.workers.datasets.reporting.label_advice import label_warnings
from ft_assets.workers.datasets.reporting.report import Labels
from ft_resources.artifacts import Artifacts
from tests.workers.datasets.conftest import Add, WriteRows, run_curation, told
from tests.workers.datasets.reporting.made import report


def counted(*answers: str, **more: Any) -> Labels | None:
    """The labels of rows with these answers, given in two batches."""
    counts = LabelCounts()
    for part in (answers[::2], answers[1::2]):
        lines = [json.dumps({"prompt": f"q{place}", "completion": answer, **more}) for place, answer in enumerate(part)]
        counts.add(parse_lines("\n".join(lines).encode(), FormSettings(), ended=True).examples)
    return counts.numbers()


def warnings_of(*answers: str) -> list[str]:
    return list(label_warnings(report(labels=counted(*answers))))


def test_labels_are_counted_the_most_frequent_first() -> None:
    found = counted(*["net"] * 30, *["libs"] * 60, *["doc"] * 10)
    assert found is not None
    assert (found.rows, found.different, found.single, found.alike) == (100, 3, 0, 0)
    assert list(found.counts.items()) == [("libs", 60), ("net", 30), ("doc", 10)]


@pytest.mark.parametrize(
    "answers",
    [
        [f"answer {number}" for number in range(100)],
        ["long " * 20] * 50 + ["other " * 20] * 50,
        ["always"] * 100,
        ["yes", "no"] * 40
        + ["It depends on what the customer has written, and on when that was, or so it seems."] * 20,
    ],
)
def test_different_long_or_equal_answers_are_no_labels(answers: list[str]) -> None:
    assert counted(*answers) is None


def test_answers_of_pairs_are_no_labels() -> None:
    counts = LabelCounts()
    lines = json.dumps({"prompt": "yes", "chosen": "yes", "rejected": "no"})
    counts.add(parse_lines("\n".join([lines] * 100).encode(), FormSettings(), ended=True).examples)
    assert counts.numbers() is None


def test_spellings_that_differ_in_case_spaces_or_punctuation_are_told_together() -> None:
    warning, *_ = warnings_of(*["libs"] * 40, *["Libs"] * 5, *["libs."] * 2, *["net-tools"] * 30, *["Net tools"] * 23)
    assert warning == (
        "2 labels are spelt in several ways, which differ only in case, spaces or punctuation: "
        "'net-tools' (30) and 'Net tools' (23); 'libs' (40) and 'Libs' (5) and 'libs.' (2). "
        "Each spelling is learned as a label of its own. Write each in one way."
    )


def test_signs_that_make_another_label_are_no_spellings_of_it() -> None:
    assert warnings_of(*["C", "C++", "C#", "1", "-1"] * 20) == []


def test_a_label_of_one_row_is_named() -> None:
    _, warning = warnings_of(*["libs"] * 47, "Libs", *["net"] * 48, *["doc"] * 9, "math")
    assert warning.startswith("1 label has a single row ('math'), which is too few to learn it and to measure.")


def test_uneven_labels_are_told_with_the_score_of_saying_always_the_most_frequent() -> None:
    uneven, always = warnings_of(*["libs"] * 90, *["net"] * 6, *["doc"] * 4)
    assert uneven.startswith("The labels are uneven: 'libs' has 90 rows, and 'doc' 4,")
    assert always.startswith("'libs' is the answer of 90 of 100 rows: always saying it is right in 90%.")
    assert warnings_of(*["libs"] * 49, *["net"] * 30, *["doc"] * 21) == []


def test_a_curated_classification_shows_its_labels_on_the_page_and_in_the_terminal(
    add: Add, write: WriteRows, artifacts: Artifacts, tmp_path: Path
) -> None:
    labels = ["libs"] * 120 + ["net "] * 60 + ["Net"] * 19 + ["<math>"]
    rows = [{**told(number), "completion": label} for number, label in enumerate(labels)]
    key = str(add(write(rows)).key)
    made = run_curation(artifacts, key, tmp_path)
    page = made.read("report/report.html").decode()
    assert "The answers are 4 labels" in page
    assert "&lt;math&gt;" in page
    assert "<math>" not in page
    shown = "\n".join(describe_report(DatasetReport(key=key, artifact=made, review=Review(state="accepted"))))
    assert "  labels (4):\n    - 120: libs\n    - 60: net \n    - 19: Net\n    - 1: <math>\n" in shown
    assert "1 label is spelt in several ways, which differ only in case, spaces or punctuation: 'net '" in shown
