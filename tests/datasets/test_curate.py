"""The work of ``dataset``: columns, counts, byte-for-byte repeatability and the two reports."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ft_assets.datasets import tally
from ft_assets.datasets.curate import COLUMNS
from ft_assets.datasets.page import row_ranges
from ft_assets.datasets.policy import DatasetPolicy, SplitSettings
from ft_assets.datasets.report import DatasetReport
from ft_assets.datasets.versions import DatasetVersion, add_dataset_version
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.canonical import digest
from ft_resources.store import Store
from tests.datasets.conftest import Row, WriteRows, chat, pair, run_curation

Add = Callable[..., DatasetVersion]
DROP = DatasetPolicy(on_bad_row="drop", split=SplitSettings(group_by="source"))
NASTY = "<script>alert(1)</script> & <b>bold</b>"


def mixed_rows() -> list[Row | bytes]:
    """200 good rows of 40 sources, then a chat with markup, a duplicate of row 3, and three bad rows."""
    good: list[Row | bytes] = [pair(number, source=number % 40, kind="sum", id=number) for number in range(200)]
    talk = {**chat("system", "user", "assistant"), "source": "talk"}
    bad: list[Row | bytes] = [b"\xff", {**chat("user", "user"), "source": 1}, pair(900)]
    return [*good, talk, {**pair(2), "source": 7}, *bad]


@pytest.fixture
def curated(add: Add, write: WriteRows, artifacts: Artifacts, tmp_path: Path) -> Artifact:
    version = add(write(mixed_rows()), DROP)
    return run_curation(artifacts, str(version.key), tmp_path)


def test_the_splits_are_parquet_with_the_promised_columns(curated: Artifact, tmp_path: Path) -> None:
    rows = []
    for split in ("train", "validation", "holdout"):
        table = pq.read_table(curated.path(f"{split}.parquet", tmp_path))
        assert table.schema.equals(COLUMNS)
        assert table.num_rows == curated.facts["rows"][split] > 0
        assert table["row"].to_pylist() == sorted(table["row"].to_pylist())
        rows += table.to_pylist()
    assert sorted(row["row"] for row in rows) == list(range(1, 202))
    assert all(row["id"] == digest(row["messages"]) for row in rows)
    by_row = {row["row"]: row for row in rows}
    assert by_row[3]["messages"] == [
        {"role": "user", "content": "What is 2?"},
        {"role": "assistant", "content": "It is the number 2."},
    ]
    assert (by_row[3]["group"], by_row[3]["kind"]) == ("2", "sum")
    assert (by_row[201]["group"], by_row[201]["kind"]) == ("talk", "")


def test_the_facts_count_what_was_dropped_and_why(curated: Artifact) -> None:
    assert curated.facts["rows_read"] == 205
    assert curated.facts["dropped"] == {"duplicate": 1, "no_group": 1, "not_utf8": 1, "role_order": 1}
    histogram = curated.facts["length_histogram"]
    assert sum(histogram["counts"]) == 201
    assert len(histogram["edges"]) == len(histogram["counts"]) + 1


def test_the_report_names_rows_and_fields_and_holds_no_text(curated: Artifact) -> None:
    data = curated.read("report/report.json").decode()
    report = DatasetReport.model_validate_json(data)
    assert {(bad.row, bad.field) for bad in report.bad_rows} == {(203, ""), (204, "messages[1].role"), (205, "source")}
    assert [(pair.row, pair.kept_row) for pair in report.duplicates] == [(202, 3)]
    assert report.schemas == {"messages": 1, "prompt/completion": 200}
    assert report.unused_fields == {"id": 200}
    assert sum(numbers.kinds.get("sum", 0) for numbers in report.splits.values()) == 200
    assert "the number" not in data
    assert report.policy == DROP


def test_curating_again_elsewhere_gives_the_same_bytes(
    curated: Artifact, add: Add, write: WriteRows, tmp_path: Path
) -> None:
    other = Store(str(tmp_path / "elsewhere"))
    file = write(mixed_rows())
    added = add_dataset_version(other, file, tenant="acme", name="facts", policy=DROP, actor="somebody else")
    again = run_curation(Artifacts(other), str(added.key), tmp_path)
    assert again.manifest.files == curated.manifest.files
    assert (again.digest, again.address) == (curated.digest, curated.address)


def test_the_page_shows_the_numbers_and_three_examples(curated: Artifact) -> None:
    page = curated.read("report/report.html").decode()
    text = re.sub(r"<[^>]+>", " ", page)
    assert "202 (same as 3)" in text
    assert "stands where &#39;assistant&#39; belongs" in text
    assert len(re.findall(r'class="example"', page)) == 3
    assert "http://" not in page
    assert "https://" not in page


def test_the_page_escapes_everything_that_came_from_the_upload(
    add: Add, write: WriteRows, artifacts: Artifacts, tmp_path: Path
) -> None:
    rows = [
        {"prompt": f"{number} {NASTY}", "completion": NASTY, "kind": NASTY, NASTY: 1, "s<i>": f"{number} {NASTY}"}
        for number in range(200)
    ]
    version = add(write(rows), DatasetPolicy(split=SplitSettings(group_by="s<i>")))
    page = run_curation(artifacts, str(version.key), tmp_path).read("report/report.html").decode()
    assert "<script" not in page
    assert "<b>bold" not in page
    assert "<i>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &lt;b&gt;bold&lt;/b&gt;" in page


def test_long_lists_are_cut_in_the_report_and_counted_in_full(
    add: Add, write: WriteRows, artifacts: Artifacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "LISTED_ROWS", 5)
    rows = [*[pair(number) for number in range(150)], *[b"x"] * 7, *[pair(1)] * 9]
    rows += [pair(number + 1000, **{f"field{number}": 1}, kind=f"kind{number}") for number in range(60)]
    version = add(write(rows), DatasetPolicy(on_bad_row="drop"))
    artifact = run_curation(artifacts, str(version.key), tmp_path)
    report = json.loads(artifact.read("report/report.json"))
    assert artifact.facts["dropped"] == {"duplicate": 9, "not_json": 7}
    assert (len(report["bad_rows"]), len(report["duplicates"]), len(report["unused_fields"])) == (5, 5, 50)
    assert all(numbers["kinds"] == {} for numbers in report["splits"].values())
    assert "151–155, …" in artifact.read("report/report.html").decode()


def test_small_splits_and_other_oddities_are_warned_about_with_advice(
    add: Add, write: WriteRows, artifacts: Artifacts, tmp_path: Path
) -> None:
    rows = [*[pair(number) for number in range(120)], *[pair(1)] * 60]
    version = add(write(rows), DatasetPolicy(split=SplitSettings(validation=0.03, holdout=0.2)))
    artifact = run_curation(artifacts, str(version.key), tmp_path)
    small, repeated = artifact.facts["warnings"]
    assert re.fullmatch(
        r"The validation split has only \d rows?; numbers measured on so few mean little\. "
        r"Raise split\.validation \(0\.03\) in dataset\.yaml, or add examples\.",
        small,
    )
    assert repeated.startswith("33% of the rows repeat an earlier row and were left out.")


def test_row_numbers_are_written_as_ranges() -> None:
    assert row_ranges([9, 3, 4, 5, 1200, 1201]) == "3–5, 9, 1,200–1,201"
    assert row_ranges([]) == ""
