"""The work of ``dataset``: columns, counts, byte-for-byte repeatability, the two reports, and every kind of upload."""

import csv
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.settings.dataset.policy import DatasetPolicy, PersonalDataSettings, SplitSettings, TextSettings
from ft_assets.workers.datasets import curate
from ft_assets.workers.datasets.engine import local
from ft_assets.workers.datasets.engine.local import CURATION, engine_of
from ft_assets.workers.datasets.reporting.report import DatasetReport
from ft_assets.workers.datasets.writing import COLUMNS
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import BadData, UserError
from ft_resources.store import Store
from ft_resources.worker_context import WorkContext
from tests.workers.datasets.conftest import (
    SIDES,
    Add,
    CurateFiles,
    Row,
    WriteRows,
    chat,
    pair,
    prose,
    run_curation,
    told,
)
from tests.workers.datasets.intake.pdfs import make_pdf

DROP = DatasetPolicy(on_bad_row="drop", split=SplitSettings(group_by="source"))


def mixed_rows() -> list[Row | bytes]:
    """200 good rows of 40 sources, then a chat with markup, a duplicate of row 3, and three bad rows."""
    good: list[Row | bytes] = [pair(number, source=number % 40, kind="sum", id=number) for number in range(200)]
    talk = {**chat("system", "user", "assistant"), "source": "talk"}
    bad: list[Row | bytes] = [b"\xff", {**chat("user", "user"), "source": 1}, pair(900)]
    return [*good, talk, {**pair(2), "source": 7}, *bad]


@pytest.fixture
def made(add: Add, write: WriteRows, artifacts: Artifacts, tmp_path: Path) -> Artifact:
    version = add(write(mixed_rows()), DROP)
    return run_curation(artifacts, str(version.key), tmp_path)


def test_the_splits_are_parquet_with_the_promised_columns(made: Artifact, tmp_path: Path) -> None:
    rows = []
    for split in SIDES:
        table = pq.read_table(made.path(f"{split}.parquet", tmp_path))
        assert table.schema.equals(COLUMNS)
        assert table.num_rows == made.facts["rows"][split] > 0
        assert table["row"].to_pylist() == sorted(table["row"].to_pylist())
        rows += table.to_pylist()
    assert sorted(row["row"] for row in rows) == list(range(1, 202))
    assert all(re.fullmatch("[0-9a-f]{64}", row["id"]) for row in rows)
    assert len({row["id"] for row in rows}) == 201
    by_row = {row["row"]: row for row in rows}
    assert [(turn["role"], turn["content"]) for turn in by_row[3]["messages"]] == [
        ("user", "What is 2?"),
        ("assistant", "It is the number 2."),
    ]
    assert (by_row[3]["group"], by_row[3]["kind"], by_row[3]["file"]) == ("2", "sum", "data.jsonl")
    assert (by_row[201]["group"], by_row[201]["kind"]) == ("talk", "")


def test_the_facts_count_what_was_dropped_and_why(made: Artifact) -> None:
    assert (made.facts["form"], made.facts["rows_read"], made.facts["held"]) == ("chat", 205, [])
    assert made.facts["dropped"] == {"duplicate": 1, "no_group": 1, "not_utf8": 1, "role_order": 1}
    histogram = made.facts["length_histogram"]
    assert sum(histogram["counts"]) == 201
    assert len(histogram["edges"]) == len(histogram["counts"]) + 1


def test_the_report_names_rows_and_fields_and_holds_no_text(made: Artifact) -> None:
    data = made.read("report/report.json").decode()
    report = DatasetReport.model_validate_json(data)
    bad = {(note.place.row, note.detail.split(": ")[0]) for each in report.findings("read") for note in each.notes}
    assert bad == {
        (203, "byte 1 of the row (0xff) is not UTF-8"),
        (204, "messages[1].role"),
        (205, "source"),
    }
    (twice,) = report.findings("duplicates")
    assert [(note.place.row, note.other and note.other.row) for note in twice.notes] == [(202, 3)]
    assert report.forms == {"messages": 1, "prompt/completion": 201}
    assert report.unused_fields == {"id": 200}
    assert sum(numbers.kinds.get("sum", 0) for numbers in report.splits.values()) == 200
    assert "the number" not in data
    assert report.policy.model_copy(update={"contamination": DROP.contamination}) == DROP


def test_curating_again_elsewhere_gives_the_same_bytes(made: Artifact, write: WriteRows, tmp_path: Path) -> None:
    other = Store(str(tmp_path / "elsewhere"))
    file = write(mixed_rows())
    added = add_dataset_version(other, file, tenant="acme", name="facts", policy=DROP, actor="somebody else")
    again = run_curation(Artifacts(other), str(added.key), tmp_path)
    assert again.manifest.files == made.manifest.files
    assert (again.digest, again.address) == (made.digest, made.address)


def test_the_page_shows_the_numbers_and_examples(made: Artifact) -> None:
    page = made.read("report/report.html").decode()
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    assert "stands where &#39;assistant&#39; belongs" in text
    assert "It is the number 2." in text
    assert "http://" not in page
    assert "https://" not in page


def test_files_of_every_role_are_curated_with_their_own_names_and_rows(
    add: Add, write: WriteRows, artifacts: Artifacts, tmp_path: Path
) -> None:
    files = [write([told(n) for n in range(100, 200)], "b.jsonl"), write([told(n) for n in range(100)], "a.jsonl")]
    side = write([told(n) for n in range(300, 312)], "side.jsonl")
    kept = write([told(n) for n in range(400, 413)], "kept.jsonl")
    version = add(files, validation=[side], holdout=[kept])
    artifact = run_curation(artifacts, str(version.key), tmp_path)
    assert artifact.facts["rows"] == {"train": 200, "validation": 12, "holdout": 13}
    train = pq.read_table(artifact.path("train.parquet", tmp_path))
    places = list(zip(train["file"].to_pylist(), train["row"].to_pylist(), strict=True))
    assert places == [(name, row) for name in ("a.jsonl", "b.jsonl") for row in range(1, 101)]
    assert pq.read_table(artifact.path("validation.parquet", tmp_path))["file"].unique().to_pylist() == ["side.jsonl"]
    report = DatasetReport.model_validate_json(artifact.read("report/report.json"))
    assert [(each.name, each.role, each.rows) for each in report.uploads] == [
        ("kept.jsonl", "holdout", 13),
        ("side.jsonl", "validation", 12),
        ("a.jsonl", "train", 100),
        ("b.jsonl", "train", 100),
    ]


def test_csv_and_parquet_give_what_the_same_rows_give_as_json_lines(
    write: WriteRows, curated: CurateFiles, tmp_path: Path
) -> None:
    rows = [told(number) for number in range(150)]
    with (tmp_path / "data.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["prompt", "completion"])
        writer.writeheader()
        writer.writerows(rows)
    pictures = {"picture": b"\x89PNG"}
    pq.write_table(pa.Table.from_pylist([{**row, **pictures} for row in rows]), tmp_path / "data.parquet")
    (tmp_path / "data.json").write_text(json.dumps(rows))
    plain = curated(write(rows))
    for name in ("data.csv", "data.parquet", "data.json"):
        other = curated(tmp_path / name)
        for side in SIDES:
            assert other.tables[side].drop(["file"]).equals(plain.tables[side].drop(["file"]))
        assert other.report.unused_fields == ({"picture": 150} if name == "data.parquet" else {})


def test_plain_text_and_pdf_become_pieces_with_pages_that_stay_together(curated: CurateFiles, tmp_path: Path) -> None:
    for book in range(3):
        chapters = [
            f"CHAPTER {chapter}\n\n" + "\n\n".join(prose((book, chapter, part), 60) for part in range(5))
            for chapter in range(40)
        ]
        (tmp_path / f"book{book}.txt").write_text("\n\n\n".join(chapters))
    pages = ["\n".join(prose(("pdf", page, line), 10) for line in range(8)) for page in range(12)]
    (tmp_path / "paper.pdf").write_bytes(make_pdf(pages))
    files = [*(tmp_path / f"book{book}.txt" for book in range(3)), tmp_path / "paper.pdf"]
    made = curated(files, DatasetPolicy(text=TextSettings(chunk_characters=600)))
    assert made.report.form == "text"
    assert all(row["text"] and row["messages"] == [] for row in made.rows.values())
    assert {row["page"] for row in made.rows.values() if row["file"] == "paper.pdf"} >= {1, 12}
    assert {row["page"] for row in made.rows.values() if row["file"] == "book0.txt"} == {0}
    sides = made.sides_of_groups
    assert "" not in sides
    assert len(sides) > 10
    assert all(len(each) == 1 for each in sides.values())


def test_preferences_keep_prompt_and_both_answers(write: WriteRows, curated: CurateFiles) -> None:
    rows = [
        {"prompt": f"Question {n}: {prose(n, 12)}", "chosen": f"Yes. {prose(('c', n), 12)}", "rejected": f"No {n}."}
        for n in range(150)
    ]
    made = curated(write(rows))
    assert made.report.form == "preference"
    first = made.rows["data.jsonl", 1]
    assert [turn["role"] for turn in first["messages"] + first["chosen"] + first["rejected"]] == [
        "user",
        "assistant",
        "assistant",
    ]
    assert (first["chosen"][0]["content"], first["rejected"][0]["content"]) == (rows[0]["chosen"], "No 0.")


def test_tool_calls_keep_their_arguments_and_the_definitions(write: WriteRows, curated: CurateFiles) -> None:
    tools = [{"name": "weather", "description": "d", "parameters": {"type": "object", "properties": {}}}]
    rows = []
    for n in range(150):
        call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": json.dumps({"city": n})}}
        turns = [
            {"role": "user", "content": f"Weather in city {n}? {prose(n, 14)}"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": f"{n} degrees"},
            {"role": "assistant", "content": f"It is {n} degrees. {prose(('a', n), 14)}"},
        ]
        rows.append({"messages": turns, "tools": tools})
    made = curated(write(rows))
    assert len(made.rows) == 150
    row = made.rows["data.jsonl", 7]
    (call,) = json.loads(row["messages"][1]["tool_calls"])
    assert call["function"] == {"name": "weather", "arguments": {"city": 6}}
    assert row["messages"][2]["tool_call_id"] == "c1"
    assert "weather" in row["tools"]


@pytest.mark.parametrize("asset", ["dataset", "token_pack"])
def test_an_engine_that_does_not_exist_or_is_not_installed_is_refused(
    asset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ft_assets.workers.packs.build import PACKING

    purpose = CURATION if asset == "dataset" else PACKING
    assert engine_of(purpose) == "local"
    monkeypatch.setenv(purpose.engine, "spark")
    with pytest.raises(UserError, match="there is no engine 'spark'"):
        engine_of(purpose)
    monkeypatch.setenv(purpose.engine, "ray")
    monkeypatch.setattr(local, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="Ray is not installed") as caught:
        engine_of(purpose)
    assert caught.value.where == purpose.engine


@pytest.mark.parametrize("action", ["detect", "scrub"])
def test_labels_with_personal_data_reach_no_report(
    write: WriteRows, curated: CurateFiles, action: Literal["detect", "scrub"]
) -> None:
    rows = [told(number, kind="ask ann@example.com", owner=f"ann{number % 40}@example.com") for number in range(300)]
    policy = DatasetPolicy(
        personal_data=PersonalDataSettings(action=action), split=SplitSettings(group_by="owner", holdout=0.2)
    )
    made = curated(write(rows), policy)
    assert "ann@example.com" not in made.report.model_dump_json()
    assert {row["kind"] for row in made.rows.values()} == {"ask <EMAIL>"}
    groups = {row["group"] for row in made.rows.values()}
    assert len(groups) == 40
    assert any("@" in group for group in groups) == (action == "detect")


def test_curation_that_takes_too_long_ends_the_worker(
    add: Add, write: WriteRows, artifacts: Artifacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed: list[tuple[float, UserError]] = []

    @contextmanager
    def at_most(_: WorkContext, seconds: float, problem: UserError) -> Iterator[None]:
        allowed.append((seconds, problem))
        yield

    def slow(*_: object) -> None:
        raise allowed[-1][1]

    monkeypatch.setenv("FT_CURATION_SECONDS", "1")
    monkeypatch.setattr(WorkContext, "at_most", at_most)
    monkeypatch.setattr(curate, "curate_upload", slow)
    version = add(write(mixed_rows()), DROP)
    with pytest.raises(BadData, match="longer than the 1 s allowed") as caught:
        run_curation(artifacts, str(version.key), tmp_path)
    assert "FT_CURATION_SECONDS" in caught.value.remedy
    assert [seconds for seconds, _ in allowed] == [1]


def test_the_time_for_curation_grows_with_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [curate.seconds_for(size) for size in (0, 1 << 30, 10 << 30)] == [3600, 90_000, 867_600]
    monkeypatch.setenv("FT_CURATION_SECONDS", "0")
    with pytest.raises(UserError, match="'0' is not a whole number of at least 1"):
        curate.seconds_for(0)
