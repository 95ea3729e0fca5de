"""What is evaluated with stays apart from what is trained on: suites, the own holdout, files set aside."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import split_moves
from ft_assets.settings.dataset.policy import ContaminationSettings, DatasetPolicy, DuplicateSettings, SplitSettings
from ft_assets.workers.datasets.similarity.items import ItemIndex
from ft_assets.workers.suites.asked import Asked
from ft_resources.artifacts import Artifacts
from ft_resources.store import Store
from tests.workers.datasets.conftest import (
    Add,
    CurateFiles,
    Row,
    WriteRows,
    every_row_is_accounted_for,
    nearly,
    pair,
    prose,
    register_suite,
    report_of,
    run_curation,
    told,
)

GOOD = [told(number) for number in range(200)]


@pytest.fixture
def quiz(store: Store, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Register a suite of long and of short questions; the input of curation that names it."""

    def register(key: str = "quiz.v1", seed: str = "quiz") -> dict[str, Any]:
        items = [{"question": prose((seed, n), 40), "choices": ["yes", "no"], "answer": 0} for n in range(20)]
        items += [
            {"question": f"Who wrote the tale of {prose((seed, n), 3)}", "choices": ["A", "B"], "answer": 1}
            for n in range(5)
        ]
        return {f"suite:{key}": register_suite(store, tmp_path / key, key, items)}

    return register


def leaky_rows() -> list[Row]:
    """GOOD with leaks of quiz items in rows 11 (whole), 21 (half of it) and 31 (a fifth of the row)."""
    rows = [dict(row) for row in GOOD]
    item = prose(("quiz", 3), 40)
    rows[10] = {"prompt": "Answer this", "completion": f"The question is: {item} I think so."}
    rows[20] = {"prompt": item.upper(), "completion": "yes"}
    rows[30]["completion"] += f" {' '.join(item.split()[:18])}"
    return rows


@pytest.mark.parametrize("action", ["remove", "escalate", "warn"])
def test_rows_that_give_away_test_items_are_found_by_suite(
    add: Add, write: WriteRows, artifacts: Artifacts, tmp_path: Path, quiz: Callable[..., Any], action: Any
) -> None:
    suites = {**quiz("other.v1", "other"), **quiz()}
    policy = DatasetPolicy(contamination=ContaminationSettings(action=action))
    version = add(write(leaky_rows()), policy)
    artifact = run_curation(artifacts, str(version.key), tmp_path, suites)
    report = report_of(artifact)
    assert report.suites == ["other.v1", "quiz.v1"]
    (finding,) = report.findings("contamination")
    expected = {"remove": "removed", "escalate": "held", "warn": "warned"}[action]
    assert (finding.subject, finding.action, finding.count) == ("quiz.v1", expected, 2)
    assert [note.place.row for note in finding.notes] == [11, 21]
    assert all((note.similarity or 0) > 0.5 for note in finding.notes)
    assert report.dropped == ({"contaminated": 2} if action == "remove" else {})
    assert bool(artifact.facts["held"]) == (action == "escalate")
    assert report.examples == 200 - 2 * (action == "remove")


def test_the_report_names_the_item_and_the_page_shows_it_beside_the_row(
    write: WriteRows, curated: CurateFiles, tmp_path: Path
) -> None:
    asked = [Asked.of(f"What did {prose(('q', n), 9)}", [prose(("c", n, k), 3) for k in range(3)]) for n in range(4)]
    ItemIndex.build([("quiz.v1", asked[:2]), ("exam.v1", asked[2:])], tmp_path / "items")
    halves = asked[3].questions[0].split(" ", 5)
    apart = [" ".join(halves[:5]), "Go on.", halves[5], prose("answer", 20)]
    roles = ("user", "assistant", "user", "assistant")
    rows = [
        {"messages": [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]}
        for texts in (
            *((row["prompt"], row["completion"]) for row in GOOD), apart, (asked[1].shown, "The first."),
        )
    ]  # fmt: skip
    made = curated(
        write(rows),
        index=tmp_path / "items",
        suites=("quiz.v1", "exam.v1"),
        suite_digests=("0" * 64, "1" * 64),
    )
    told_of = {
        (each.subject, note.place.row, note.detail)
        for each in made.report.findings("contamination")
        for note in each.notes
    }
    assert told_of == {
        ("exam.v1", 201, "item 2 of exam.v1: its question"),
        ("quiz.v1", 202, "item 2 of quiz.v1: its question and 3 of its 3 choices"),
    }
    shown = {(str(each.other_place), each.other_text) for each in made.exhibits if each.step == "contamination"}
    assert shown == {("exam.v1, row 2", asked[3].shown), ("quiz.v1, row 2", asked[1].shown)}


@pytest.mark.parametrize(("times", "flagged"), [(2, 2), (3, 0)])
def test_a_question_of_a_few_words_that_several_rows_ask_is_common_speech(
    write: WriteRows, curated: CurateFiles, tmp_path: Path, times: int, flagged: int
) -> None:
    ItemIndex.build([("quiz.v1", [Asked.of("Why is it so?", ["it must be"])])], tmp_path / "items")
    rows = [{"prompt": "Why is it so?", "completion": prose(("so", n), 30)} for n in range(times)]
    made = curated(write([*GOOD, *rows]), index=tmp_path / "items", suites=("quiz.v1",), suite_digests=("0" * 64,))
    assert sum(each.count for each in made.report.findings("contamination")) == flagged


def test_training_rows_like_the_own_holdout_are_left_out(write: WriteRows, curated: CurateFiles) -> None:
    policy = DatasetPolicy(split=SplitSettings(holdout=0.3))
    held = [row for (_, row), side in curated(write(GOOD), policy).places.items() if side == "holdout"]
    copies = [
        {"prompt": f"Retell {number}", "completion": f"{GOOD[row - 1]['completion']} {prose(('more', number), 12)}"}
        for number, row in enumerate(held)
    ]
    made = curated(write([*GOOD, *copies]), policy)
    noted = {row for _, row in made.noted("own_holdout", "holdout_overlap")}
    on_other_sides = {201 + n for n in range(len(copies)) if made.places.get(("data.jsonl", 201 + n)) != "holdout"}
    assert len(noted) > len(copies) / 2
    assert noted == on_other_sides
    assert not noted & {row for _, row in made.places}
    every_row_is_accounted_for(made)


@pytest.mark.parametrize("dress", split_moves.COPIES)
def test_no_copy_of_a_holdout_row_is_trained_on_whatever_dress_it_is_in(dress: str) -> None:
    draw = random.Random(dress)
    words = ["".join(draw.choices("abcdefghijklmnoprstuvw", k=draw.randint(2, 9))) for _ in range(3000)]
    rows = [
        {"prompt": " ".join(draw.choices(words, k=9)), "completion": " ".join(draw.choices(words, k=25))}
        for _ in range(150)
    ]
    crossed, held = split_moves.crossed(rows, dress, draw)
    assert held > 25
    assert crossed == 0


def test_short_mistyped_copies_of_the_holdout_go_and_other_questions_in_its_words_stay(
    write: WriteRows, curated: CurateFiles
) -> None:
    draw = random.Random("short")
    words = ["".join(draw.choices("abcdefghjkmnpqrstuvw", k=draw.randint(4, 8))) for _ in range(200)]
    asked = [{"prompt": " ".join(draw.sample(words, 6)), "completion": draw.choice(words)} for _ in range(40)]
    other = [" ".join(draw.sample(words, 5)) for _ in range(150)]
    rows = [{"prompt": f"{text} {draw.choice(words)}", "completion": draw.choice(words)} for text in other]
    # In the words of a held-out question, with another one in the place of the last.
    rows += [{**row, "prompt": f"{row['prompt'].rsplit(' ', 1)[0]} {words[at]}"} for at, row in enumerate(asked)]
    copies = [{name: split_moves.mistyped(draw, text, 0.1) for name, text in row.items()} for row in asked]
    policy = DatasetPolicy(duplicates=DuplicateSettings(near="off"))
    files = {"upload": [write([*rows, *copies])], "holdout": [write(asked, "holdout.jsonl")]}
    noted = {row for _, row in curated(files, policy).noted("own_holdout", "holdout_overlap")}
    assert len([row for row in noted if row > len(rows)]) >= 34
    assert not [row for row in noted if row <= len(rows)]


@pytest.mark.parametrize("rows", [150, pytest.param(1500, marks=pytest.mark.long)])
def test_a_prompt_template_that_all_rows_share_removes_none_of_them(
    write: WriteRows, curated: CurateFiles, rows: int
) -> None:
    template = prose("template", 45)
    made = curated(
        write(
            [
                {"prompt": f"{template} Subject {n}: {prose(n, 6)}", "completion": prose(("a", n), 9)}
                for n in range(rows)
            ]
        ),
        DatasetPolicy(duplicates=DuplicateSettings(near="off")),
    )
    assert made.report.dropped == {}
    assert made.report.examples == rows


def test_a_template_and_a_tiny_holdout_file_remove_none_of_the_rows(write: WriteRows, curated: CurateFiles) -> None:
    template = prose("template", 45)

    def row(n: int) -> Row:
        return {"prompt": f"{template} Subject {n}: {prose(n, 6)}", "completion": prose(("a", n), 9)}

    files = {
        "upload": [write([row(n) for n in range(200)])],
        "holdout": [write([row(n) for n in range(900, 903)], "holdout.jsonl")],
    }
    made = curated(files, DatasetPolicy(duplicates=DuplicateSettings(near="off")))
    assert made.report.dropped == {}


def test_a_holdout_file_wins_over_rows_to_train_on(write: WriteRows, curated: CurateFiles) -> None:
    holdout = write([*GOOD[:10], told(901)], "holdout.jsonl")
    rows = [*GOOD[5:], nearly(GOOD[3]), {**GOOD[1], "completion": prose("another answer")}]
    made = curated({"upload": [write(rows)], "holdout": [holdout]})
    assert {place for place, side in made.places.items() if side == "holdout"} == {
        ("holdout.jsonl", n) for n in range(1, 12)
    }
    assert made.report.dropped == {"duplicate": 5, "near_duplicate": 1, "set_aside": 1}
    # Row 196 is nearly one of the holdout, row 197 another answer to a prompt of it.
    assert not {("data.jsonl", row) for row in (*range(1, 6), 196, 197)} & set(made.places)
    assert {side for (file, _), side in made.places.items() if file == "data.jsonl"} == {"train", "validation"}
    every_row_is_accounted_for(made)


@pytest.mark.parametrize("near", ["remove", "keep", "off"])
def test_what_belongs_together_never_straddles_sides_though_files_were_set_aside(
    write: WriteRows, curated: CurateFiles, near: Any
) -> None:
    rows = [{**row, "source": f"s{number % 40}"} for number, row in enumerate(GOOD)]
    files = {
        "upload": [write([*rows, {**pair(77), "source": "one"}])],
        "validation": [write([{**told(700 + n), "source": f"s{n}"} for n in range(3)], "validation.jsonl")],
        "holdout": [write([{**told(800 + n), "source": f"s{n + 2}"} for n in range(3)], "holdout.jsonl")],
    }
    made = curated(
        files, DatasetPolicy(split=SplitSettings(group_by="source"), duplicates=DuplicateSettings(near=near))
    )
    sides = made.sides_of_groups
    assert all(len(each) == 1 for each in sides.values())
    assert (sides["s2"], sides["s0"]) == ({"holdout"}, {"validation"})
    every_row_is_accounted_for(made)
