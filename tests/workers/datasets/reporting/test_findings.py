"""Each finding on the page: where it is, what it is, and the line that undoes it."""

import re
from dataclasses import replace
from html import unescape
from typing import Any

import pytest
import yaml
from markupsafe import Markup

from ft_assets.settings.dataset.policy import (
    BalanceSettings,
    ContaminationSettings,
    DatasetPolicy,
    DuplicateSettings,
    ParaphraseSettings,
    PersonalDataSettings,
    QualitySettings,
    ToxicitySettings,
)
from ft_assets.workers.datasets.forms.reasons import Reason
from ft_assets.workers.datasets.reporting.differences import SHOWN, mark_differences, mark_placeholders
from ft_assets.workers.datasets.reporting.flow import flow_of
from ft_assets.workers.datasets.reporting.page import render_page
from ft_assets.workers.datasets.reporting.report import Action, Finding, Note, Step, Upload, rows_found
from ft_assets.workers.datasets.reporting.undo import undo_of
from tests.workers.datasets.conftest import CurateFiles, WriteRows, nearly, pair, prose, told
from tests.workers.datasets.reporting.made import exhibit, finding, place, report, step
from tests.workers.datasets.reporting.test_page import text_of

READ = [
    Reason.NOT_UTF8, Reason.NOT_JSON, Reason.TOO_LONG, Reason.UNKNOWN_SCHEMA, Reason.WRONG_TYPE, Reason.EMPTY_TEXT,
    Reason.BAD_TEXT, Reason.ROLE_ORDER, Reason.TOOL_CALLS, Reason.SAME_ANSWERS, Reason.NO_GROUP, Reason.BAD_WEIGHT,
    Reason.MIXED_KINDS,
]  # fmt: skip
FOUND: list[tuple[Step, str, Action, str]] = [
    *[("read", reason, "removed", "") for reason in READ],  # type: ignore[list-item]
    ("personal_data", "personal_data", "changed", "email"),
    ("personal_data", "personal_data", "warned", "secret"),
    ("personal_data", "personal_data", "held", "id"),
    ("duplicates", Reason.DUPLICATE, "removed", ""),
    ("duplicates", Reason.NEAR_DUPLICATE, "removed", ""),
    ("duplicates", Reason.NEAR_DUPLICATE, "warned", ""),
    ("contamination", Reason.CONTAMINATED, "removed", "mmlu.v1"),
    ("contamination", Reason.CONTAMINATED, "held", "arc.v1"),
    ("contamination", Reason.CONTAMINATED, "warned", "arc.v1"),
    ("paraphrases", Reason.PARAPHRASED, "removed", "mmlu.v1"),
    ("paraphrases", Reason.PARAPHRASED, "held", "mmlu.v1"),
    ("paraphrases", Reason.PARAPHRASED, "warned", "mmlu.v1"),
    ("quality", "truncated", "removed", ""),
    ("quality", "repetitive", "warned", ""),
    ("toxicity", Reason.TOXIC, "removed", ""),
    ("split", Reason.HELD_OUT, "removed", ""),
    ("split", Reason.SET_ASIDE, "removed", ""),
    ("split", "stays_held_out", "warned", ""),
    ("own_holdout", Reason.HOLDOUT_OVERLAP, "removed", ""),
    ("balance", Reason.BALANCED_OUT, "removed", ""),
    ("balance", "no_category", "warned", "kind"),
]
POLICY = DatasetPolicy(
    quality=QualitySettings(filter=("truncated",)),
    toxicity=ToxicitySettings(classifier="toxic.v1", labels=("toxic",), threshold=0.9),
    balance=BalanceSettings(),
    contamination=ContaminationSettings(paraphrases=ParaphraseSettings(encoder="e5.v1", threshold=0.8)),
)


@pytest.mark.parametrize(("name", "reason", "action", "subject"), FOUND)
def test_every_finding_says_what_undoes_it_in_lines_that_a_policy_takes(
    name: Step, reason: str, action: Action, subject: str
) -> None:
    found = finding(reason, 2, action, subject)
    made = report(step(name, found), policy=POLICY, suites=["mmlu.v1", "arc.v1"])
    told_of = undo_of(name, found, made)
    assert told_of
    assert told_of in unescape(re.sub("</?code>", "`", render_page(made, [])))
    for line in re.findall(r"`([a-z_]+: .+?)`", told_of):
        ((section, changes),) = yaml.safe_load(line).items()
        policy = POLICY.model_dump(mode="json")
        assert DatasetPolicy.model_validate({**policy, section: {**policy[section], **changes}}, strict=False), line


def test_an_undo_of_a_filter_keeps_the_other_filters() -> None:
    policy = DatasetPolicy(quality=QualitySettings(filter=("short", "truncated")))
    found = finding("short", 1)
    assert undo_of("quality", found, report(step("quality", found), policy=policy)).startswith(
        '`quality: {filter: ["truncated"]}` keeps them'
    )


def test_places_are_named_as_the_files_are_and_test_items_as_items() -> None:
    notes = [Note(place=place(7, "more.csv"), detail="item 4 of mmlu.v1: its question", similarity=1.0)]
    found = Finding(reason="contaminated", action="removed", count=1, notes=notes, subject="mmlu.v1")
    shown = exhibit("contamination", "contaminated", 7, "which organ pumps the blood", 4, "Which organ pumps the blood")
    shown = replace(shown, place=place(7, "more.csv"), other_place=place(4, "mmlu.v1"))
    uploads = [Upload(name=name, size=1, sha256="", rows=9) for name in ("talks.jsonl", "more.csv")]
    text = text_of(render_page(report(step("contamination", found), uploads=uploads, suites=["mmlu.v1"]), [shown]))
    assert "more.csv: row 7 more.csv, row 7 100 % alike" in text
    assert "item 4 of mmlu.v1 Which organ" in text
    assert "where what about it alike more.csv, row 7 item 4 of mmlu.v1: its question 100 %" in text


def test_a_bad_row_is_shown_with_the_upload_s_own_name_of_the_field() -> None:
    note = Note(place=place(7), detail="completion: this text is empty")
    found = Finding(reason="empty_text", action="removed", count=1, notes=[note])
    mapped = report(step("read", found), policy=DatasetPolicy(fields={"completion": "Abteilung"}))
    assert "Abteilung: this text is empty" in (text := text_of(render_page(mapped, [])))
    assert "completion: this text is empty" not in text


def marked(text: Markup) -> list[str]:
    return re.findall("<mark>(.*?)</mark>", str(text))


@pytest.mark.parametrize(
    "dress",
    [
        str.upper,
        "\u200b".join,
        lambda text: " ".join(f"**{word}**" for word in text.split()),
        lambda text: text.replace("o", "\u043e"),
        lambda text: text.replace(" ", "\u00a0"),
    ],
)
def test_what_is_alike_in_another_dress_is_marked_in_leaks_and_not_in_near_copies(dress: Any) -> None:
    item = "Which of the organs pumps blood through the whole body?"
    left, right = mark_differences(f"Help me. {dress(item)} Thanks.", item, shared=True)
    assert "".join(marked(right)).startswith("Which of the organs")
    assert len("".join(marked(left))) >= len(item) - 2
    assert [marked(each) for each in mark_differences(dress(item) + " Yes.", item + " No.")] == [["Yes"], ["No"]]


def test_near_copies_that_differ_in_looks_alone_say_so() -> None:
    near = [Note(place=place(row), other=place(1), similarity=1.0) for row in (2, 3)]
    made = report(step("duplicates", Finding(reason="near_duplicate", action="removed", count=2, notes=near)))
    looks = exhibit("duplicates", "near_duplicate", 2, "THE CAT, sat", 1, "the **cat** sat")
    words = exhibit("duplicates", "near_duplicate", 3, "the dog sat", 1, "the cat sat")
    assert text_of(render_page(made, [looks, words])).count("They differ only in letter case, markup") == 1


def test_an_item_deep_in_a_document_is_shown_and_a_cut_makes_no_difference() -> None:
    item = "Which of the organs pumps blood through the whole body?"
    left, _ = mark_differences(f"{prose('before', 200)} {item} {prose('after', 80)}", item, shared=True)
    assert marked(left) == [item[:-1]] or marked(left) == [item]
    long = prose("long", 200)
    one, other = mark_differences(f"** {long}", long.replace("harbour", "harbours", 1))
    assert len(marked(one)) == len(marked(other)) == 1
    assert len(long) > SHOWN
    assert [marked(each) for each in mark_differences(long, long)] == [[], []]


def test_a_placeholder_deep_in_a_text_is_shown() -> None:
    assert marked(mark_placeholders(f"{prose('before', 200)} to <EMAIL>, <b> {prose('after', 200)}")) == [
        "&lt;EMAIL&gt;"
    ]


def test_rows_with_several_findings_are_counted_once() -> None:
    rows = [finding("personal_data", 3, "warned", "card"), finding("personal_data", 2, "warned", "email")]
    assert rows_found(rows) == (3, True)
    assert rows_found([*rows, finding("personal_data", 5, "warned", "ip", rows=range(8, 10))]) == (5, False)
    assert flow_of(report(step("personal_data", *rows)))[0].said == "3 noted"


SECRETS = ("maria.lopez@kliniken-nord.de", "4111 1111 1111 1111")


@pytest.mark.parametrize("action", ["detect", "scrub", "escalate"])
def test_the_page_shows_rows_with_personal_data_by_type_and_never_what_was_found(
    write: WriteRows, curated: CurateFiles, action: Any
) -> None:
    base = told(1, prompt=f"Please write to {SECRETS[0]} about {prose('base', 12)}")
    rows = [base, nearly(base), pair(3, prompt=f"Charge {SECRETS[1]} today"), *[told(number) for number in range(120)]]
    made = curated(
        write(rows),
        DatasetPolicy(personal_data=PersonalDataSettings(action=action), duplicates=DuplicateSettings(near="keep")),
    )
    page = render_page(made.report, made.exhibits)
    assert not any(secret in page for secret in SECRETS)
    text = text_of(page)
    section = text[text.index("Rows with personal data") :]
    assert re.search(r"e-mail addresses .*?2 rows rows 1–2 row 1 Please write to &lt;EMAIL&gt;", section)
    assert re.search(r"payment cards .*?1 row row 3 row 3 Charge &lt;CARD&gt; today", section)
    assert ("on this page only" in section) == (action != "scrub")


def test_the_pictures_that_were_left_out_stand_beside_their_file() -> None:
    uploads = [Upload(name="a.docx", size=1, sha256="", rows=9, pictures=15), Upload(name="b.txt", size=1, sha256="")]
    assert "pictures left out" in (text := text_of(render_page(report(uploads=uploads), [])))
    assert "a.docx train 9 15 1 bytes" in text
    assert "pictures left out" not in text_of(render_page(report(), []))


def test_rows_like_the_holdout_stand_beside_the_row_that_they_repeat(write: WriteRows, curated: CurateFiles) -> None:
    held = [told(number) for number in range(500, 512)]
    copies = [
        {"prompt": f"Retell {n}", "completion": f"{row['completion']} {prose(n, 9)}"} for n, row in enumerate(held)
    ]
    made = curated(
        {
            "upload": [write([*[told(number) for number in range(150)], *copies])],
            "holdout": [write(held, "holdout.jsonl")],
        }
    )
    (found,) = made.report.findings("own_holdout")
    assert found.count == len(copies)
    assert [(str(note.place), str(note.other)) for note in found.notes] == [
        (f"data.jsonl, row {151 + number}", f"holdout.jsonl, row {1 + number}") for number in range(len(copies))
    ]
    page = render_page(made.report, made.exhibits)
    assert "holdout.jsonl, row 1" in text_of(page)
