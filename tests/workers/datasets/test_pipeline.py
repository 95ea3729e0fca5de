"""The steps together, on uploads with planted faults: what is found, what is left out, and how it is told."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import near_copies
from ft_assets.settings.dataset.policy import (
    BalanceSettings,
    DatasetPolicy,
    DuplicateSettings,
    MixSettings,
    PersonalDataSettings,
    QualitySettings,
)
from ft_assets.workers.datasets.reporting.page import render_page
from ft_resources.artifacts import Artifacts
from ft_resources.errors import BadData
from tests.workers.datasets.conftest import (
    SIDES,
    Add,
    CurateFiles,
    Row,
    WriteRows,
    every_row_is_accounted_for,
    nearly,
    prose,
    report_of,
    run_curation,
    told,
)

SMALL = 4 << 10
GOOD = [told(number) for number in range(200)]


@pytest.mark.parametrize("chunk_bytes", [None, SMALL])
def test_duplicates_are_left_out_and_the_first_is_kept_across_chunks_and_files(
    write: WriteRows, curated: CurateFiles, chunk_bytes: int | None
) -> None:
    first = [*GOOD[:100], GOOD[10], {**GOOD[20], "prompt": f"  {GOOD[20]['prompt']}\r\n"}]
    second = [*GOOD[100:], GOOD[30], nearly(GOOD[40]), nearly(GOOD[150]), nearly(GOOD[150])]
    made = curated([write(second, "b.jsonl"), write(first, "a.jsonl")], chunk_bytes=chunk_bytes)
    assert made.found("duplicates") == {"duplicate": 4, "near_duplicate": 2}
    assert made.noted("duplicates", "duplicate") == [
        ("a.jsonl", 101),
        ("a.jsonl", 102),
        ("b.jsonl", 101),
        ("b.jsonl", 104),
    ]
    (near,) = [each for each in made.report.findings("duplicates") if each.reason == "near_duplicate"]
    assert [(str(note.place), str(note.other)) for note in near.notes] == [
        ("b.jsonl, row 102", "a.jsonl, row 41"),
        ("b.jsonl, row 103", "b.jsonl, row 51"),
    ]
    assert all(0.9 <= (note.similarity or 0) < 1 for note in near.notes)
    assert set(made.places) == {(name, row) for name in ("a.jsonl", "b.jsonl") for row in range(1, 101)}
    for side in SIDES:
        places = list(zip(made.tables[side]["file"].to_pylist(), made.tables[side]["row"].to_pylist(), strict=True))
        assert places == sorted(places)
    every_row_is_accounted_for(made)


@pytest.mark.parametrize("chunk_bytes", [None, SMALL])
def test_rows_keep_their_numbers_with_bad_and_blank_lines_among_them(
    write: WriteRows, curated: CurateFiles, chunk_bytes: int | None
) -> None:
    lines: list[Any] = []
    for number, row in enumerate(GOOD):
        lines += [b"", row] if number % 3 == 0 else [row]
        if number % 20 == 7:
            lines.append(b"no json")
    made = curated(write(lines), DatasetPolicy(on_bad_row="drop", max_dropped_share=0.5), chunk_bytes=chunk_bytes)
    expected = {number for number, line in enumerate(lines, 1) if isinstance(line, dict)}
    assert {row for _, row in made.places} == expected
    assert all(row["messages"][0]["content"] == lines[number - 1]["prompt"] for (_, number), row in made.rows.items())
    assert [row for _, row in made.noted("read", "not_json")] == [
        n for n, line in enumerate(lines, 1) if line == b"no json"
    ]
    every_row_is_accounted_for(made)


@pytest.mark.parametrize(
    "dress",
    [
        str.upper,
        "\u200b".join,
        lambda text: text.replace(" ", "\u00a0"),
        lambda text: text.replace(".", "").replace(":", ""),
        lambda text: " ".join(f"**{word}**" for word in text.split()),
        lambda text: "".join(chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in text),
        lambda text: text.translate(str.maketrans("aceopx", "асеорх")),
    ],
    ids=["capitals", "zero width", "no-break", "no punctuation", "markdown", "full width", "confusables"],
)
def test_a_row_in_another_dress_is_a_near_duplicate(
    write: WriteRows, curated: CurateFiles, dress: Callable[[str], str]
) -> None:
    rows = [told(number) for number in range(100)]
    again = [{name: dress(text) for name, text in row.items()} for row in rows]
    made = curated(write([*rows, *again]))
    assert set(made.noted("duplicates", "near_duplicate")) == {("data.jsonl", number) for number in range(101, 201)}
    assert made.report.examples == 100


def test_sums_that_differ_in_a_sign_or_a_number_are_not_duplicates(write: WriteRows, curated: CurateFiles) -> None:
    sums = [{"prompt": f"{a} {sign} {b}", "completion": "?"} for a in range(20) for b in range(9) for sign in "+*/<=%"]
    assert curated(write(sums)).report.dropped.get("near_duplicate", 0) == 0


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_one_answer_about_two_diseases_is_no_near_duplicate_and_a_mistyped_copy_of_it_is(seed: int) -> None:
    right, gone, found, due = near_copies.wordings(seed, subjects=100)
    assert right >= 0.95 * gone
    assert found >= 0.9 * due > 150


def test_questions_about_one_passage_with_other_answers_stay_and_are_on_one_side(
    write: WriteRows, curated: CurateFiles
) -> None:
    asked = ["Who is named first?", "Which word comes last?", "Is it true?"]
    rows = [
        {"prompt": f"{question} {prose(passage, 250)}", "completion": answer}
        for passage in range(120)
        for question, answer in zip(asked, ("Mary", f"word {passage}", "Yes"), strict=True)
    ]
    # Asked in other words.
    again = [{**rows[0], "prompt": rows[0]["prompt"].replace("Who is", "Who was")}]
    made = curated(write([*rows, *again]))
    assert made.noted("duplicates", "near_duplicate") == [("data.jsonl", 361)]
    sides = made.places
    assert len(sides) == 360
    assert all(len({sides["data.jsonl", row + more] for more in range(3)}) == 1 for row in range(1, 361, 3))


def test_a_near_duplicate_stays_by_its_id_and_its_exact_copy_goes(write: WriteRows, curated: CurateFiles) -> None:
    rows = [*GOOD, nearly(GOOD[3]), nearly(GOOD[4]), nearly(GOOD[3])]
    made = curated(write(rows))
    assert made.report.dropped["near_duplicate"] == 2
    page = render_page(made.report, made.exhibits)
    (identity,) = set(re.findall(r"keep: \[&#34;([0-9a-f]{12})&#34;\]}</code> keeps row 201", page))
    again = DatasetPolicy(duplicates=DuplicateSettings(keep=(identity, "0" * 12)))
    # Also where the upload is in another order.
    for given in (rows, [*rows[1:], rows[0]]):
        kept = curated(write(given), again)
        assert (kept.report.dropped["duplicate"], kept.report.dropped["near_duplicate"]) == (1, 1)
        assert [text for text in kept.report.warnings if "names 000000000000, which no row has" in text]
        every_row_is_accounted_for(kept)
        answers = [row["messages"][-1]["content"] for row in kept.rows.values()]
        assert [answers.count(row["completion"]) for row in (GOOD[3], nearly(GOOD[3]), nearly(GOOD[4]))] == [1, 1, 0]


def test_near_duplicates_may_be_kept_together_or_not_looked_for(write: WriteRows, curated: CurateFiles) -> None:
    rows = [row for number in range(150) for row in (GOOD[number], nearly(GOOD[number]))]
    # Without equal prompts, only the cluster holds the two together.
    for number, row in enumerate(rows):
        row["prompt"] = row["prompt"].replace("Tell", f"Tell{number % 2}")
    kept = curated(write(rows), DatasetPolicy(duplicates=DuplicateSettings(near="keep")))
    assert kept.found("duplicates") == {"near_duplicate": 150}
    sides = kept.places
    assert len(sides) == 300
    assert all(sides["data.jsonl", row] == sides["data.jsonl", row + 1] for row in range(1, 300, 2))
    off = curated(write(rows), DatasetPolicy(duplicates=DuplicateSettings(near="off")))
    assert off.found("duplicates") == {}
    every_row_is_accounted_for(off)


def personal_rows() -> list[Row]:
    rows = [dict(row) for row in GOOD]
    rows[3]["completion"] += " Write to ann.smith@example.com or bob@example.org."
    rows[4]["prompt"] += " Pay with 4111 1111 1111 1111."
    rows[5]["completion"] += " The host is 203.0.113.77."
    return rows


def test_personal_data_is_reported_scrubbed_or_holds_the_version(write: WriteRows, curated: CurateFiles) -> None:
    file = write(personal_rows())
    made = {
        action: curated(file, DatasetPolicy(personal_data=PersonalDataSettings(action=action)))
        for action in ("detect", "scrub", "escalate", "off")
    }
    for action, told_as in (("detect", "warned"), ("scrub", "changed"), ("escalate", "held")):
        report = made[action].report
        assert made[action].found("personal_data") == {
            "personal_data:card": 1,
            "personal_data:email": 1,
            "personal_data:ip": 1,
        }
        assert {each.action for each in report.findings("personal_data")} == {told_as}
        assert report.personal_data == {"card": 1, "email": 2, "ip": 1}
        assert report.examples == 200
        assert bool(report.held) == (action == "escalate")
    assert made["off"].report.personal_data == {}
    assert made["off"].bytes == made["detect"].bytes == made["escalate"].bytes
    scrubbed = made["scrub"].rows["data.jsonl", 4]["messages"][1]["content"]
    assert scrubbed.endswith(" Write to <EMAIL> or <EMAIL>.")
    texts = str(list(made["scrub"].rows.values()))
    assert "4111" not in texts
    assert "203.0.113.77" not in texts
    assert "example.com" not in made["scrub"].report.model_dump_json()
    for action in ("detect", "scrub", "escalate"):
        shown = [each.text for each in made[action].exhibits if each.step == "personal_data"]
        assert shown
        assert all("<" in text and "4111" not in text and "example.com" not in text for text in shown)


def test_heuristics_warn_and_only_filter_what_the_policy_names(write: WriteRows, curated: CurateFiles) -> None:
    rows = [dict(row) for row in GOOD]
    rows[0]["completion"] = "k"
    rows[1]["completion"] = "no no no no " * 60
    file = write(rows)
    warned = curated(file, DatasetPolicy(quality=QualitySettings(min_answer_characters=2)))
    assert warned.found("quality") == {"short": 1, "repetitive": 1}
    assert warned.report.examples == 200
    strict = curated(
        file, DatasetPolicy(quality=QualitySettings(filter=("short", "repetitive"), min_answer_characters=2))
    )
    assert strict.report.dropped == {"repetitive": 1, "short": 1}
    assert ("data.jsonl", 1) not in strict.places
    every_row_is_accounted_for(strict)


def test_balance_leaves_out_rows_of_the_largest_categories_of_training_only(
    write: WriteRows, curated: CurateFiles
) -> None:
    kinds = ["big"] * 300 + ["a"] * 50 + ["b"] * 50
    file = write([told(number, kind=kind) for number, kind in enumerate(kinds)])
    plain = curated(file)
    made = curated(file, DatasetPolicy(balance=BalanceSettings(max_ratio=2.0)))
    assert made.report.splits["holdout"] == plain.report.splits["holdout"]
    kept = made.report.splits["train"].kinds
    median = sorted((kept["a"], kept["b"], 300))[1]
    assert kept["big"] == 2 * median
    assert made.report.dropped == {"balanced_out": plain.report.splits["train"].kinds["big"] - kept["big"]}
    every_row_is_accounted_for(made)


@pytest.mark.parametrize("by", ["kind", "group"])
def test_balance_by_what_no_row_has_changes_nothing_and_says_so(
    write: WriteRows, curated: CurateFiles, by: str
) -> None:
    made = curated(write(GOOD), DatasetPolicy(balance=BalanceSettings(by=by)))
    assert made.found("balance") == {f"no_category:{by}": made.report.splits["train"].rows}
    assert made.report.examples == 200
    assert [warning for warning in made.report.warnings if f"No training row has a {by}" in warning]
    every_row_is_accounted_for(made)


def test_rows_of_another_dataset_are_mixed_in_to_the_share_asked_for_and_never_twice(
    add: Add, write: WriteRows, artifacts: Artifacts, tmp_path: Path
) -> None:
    general = add(write([told(number) for number in range(1000, 1300)], "general.jsonl"), name="general")
    source = run_curation(artifacts, str(general.key), tmp_path)
    policy = DatasetPolicy(mix=(MixSettings(dataset="acme.general.v1", share=0.2),))
    own = add(write([*GOOD, *[told(number) for number in range(1000, 1050)]]), policy)
    artifact = run_curation(artifacts, str(own.key), tmp_path, {"mix:acme.general.v1": source.ref})
    report = report_of(artifact)
    (mixed,) = report.mixed
    train = pq.read_table(artifact.path("train.parquet", tmp_path))
    added = train.filter(pa.compute.equal(train["file"], "acme.general.v1"))
    assert (mixed.dataset, mixed.purpose, mixed.rows) == ("acme.general.v1", "general", added.num_rows)
    assert mixed.share == pytest.approx(0.2, abs=0.01)
    assert report.splits["train"].rows == train.num_rows == artifact.facts["rows"]["train"]
    assert len(set(train["id"].to_pylist())) == train.num_rows
    originals = {row["row"]: row["id"] for row in pq.read_table(source.path("train.parquet", tmp_path)).to_pylist()}
    assert all(originals[row["row"]] == row["id"] for row in added.to_pylist())
    assert report.steps[-1].step == "mix"
    assert report.steps[-1].rows_out - report.steps[-1].rows_in == mixed.rows


def test_files_with_different_kinds_of_data_are_refused(write: WriteRows, curated: CurateFiles) -> None:
    text = write([{"text": prose(number)} for number in range(50)], "text.jsonl")
    with pytest.raises(BadData, match=r"rows are of different kinds of data \(200 chat, 50 text\)"):
        curated([write(GOOD), text])


def test_the_report_has_the_steps_in_their_order(
    write: WriteRows, tmp_path: Path, artifacts: Artifacts, add: Add
) -> None:
    add(write(GOOD))
    artifact = run_curation(artifacts, "acme.facts.v1", tmp_path)
    report = report_of(artifact)
    assert [each.step for each in report.steps] == [
        "read",
        "personal_data",
        "duplicates",
        "quality",
        "split",
        "own_holdout",
    ]
    assert report.languages
