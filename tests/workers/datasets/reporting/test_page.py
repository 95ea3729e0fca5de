"""The page as text: everything is there, everything is escaped."""

import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.settings.dataset.policy import DatasetPolicy, PersonalDataSettings, QualitySettings, SplitSettings
from ft_assets.workers.datasets.reporting.acceptance import accept
from ft_assets.workers.datasets.reporting.differences import SHOWN, cut_middle, mark_differences
from ft_assets.workers.datasets.reporting.findings import row_ranges
from ft_assets.workers.datasets.reporting.flow import flow_of
from ft_assets.workers.datasets.reporting.page import render_page
from ft_assets.workers.datasets.reporting.report import DatasetReport, Finding, Note, SplitNumbers, StepReport, Upload
from tests.workers.datasets.reporting.made import exhibit, finding, place, report, step

NASTY = "<script>alert(1)</script> & <b>bold</b> \"' javascript:"


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.split("<body>")[1]))


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def tags_of(page: str) -> _Tags:
    parser = _Tags()
    parser.feed(page)
    return parser


def test_an_accepted_version_says_so_first() -> None:
    text = text_of(render_page(report(), [], "acme.talks.v1"))
    assert text.index("acme.talks.v1") < text.index("Accepted") < text.index("Rows that came in")
    assert "1,050" not in text
    assert "Nothing: every row was kept." in text


def test_a_held_version_says_why_and_what_to_do() -> None:
    made = accept(report(step("contamination", finding("contaminated", 3, "held", "mmlu"))))
    text = text_of(render_page(made, []))
    assert "Held for review" in text
    assert "3 rows hold items, or mostly text, of tests" in text
    assert "ft dataset approve" in text


def test_rows_left_out_are_named_with_reason_field_and_problem() -> None:
    notes = [Note(place=place(row), detail="messages[0].role: wrong") for row in (3, 4, 5, 900)]
    made = report(step("read", Finding(reason="role_order", action="removed", count=7, notes=notes)))
    text = text_of(render_page(made, []))
    assert "Turns in an order that cannot be trained on 7 rows rows 3–5, 900, …" in text
    assert "messages[0].role: wrong" in text


def test_near_duplicates_stand_side_by_side_with_their_differences_marked() -> None:
    note = Note(place=place(8), other=place(2), similarity=0.99996)
    made = report(step("duplicates", Finding(reason="near_duplicate", action="removed", count=1, notes=[note])))
    page = render_page(made, [exhibit("duplicates", "near_duplicate", 8, "the cat sat", 2, "the dog sat")])
    assert "the <mark>cat</mark> sat" in page
    assert "the <mark>dog</mark> sat" in page
    text = text_of(page)
    assert "row 8 99.9 % alike" in text
    assert "like row 2, which stayed" in text


def test_ten_near_duplicates_are_shown_three_of_them_open_each_with_what_keeps_it() -> None:
    notes = [Note(place=place(row), other=place(1), similarity=0.95) for row in range(2, 14)]
    made = report(step("duplicates", Finding(reason="near_duplicate", action="removed", count=12, notes=notes)))
    shown = [
        replace(exhibit("duplicates", "near_duplicate", row, "the cat sat", 1, "the dog sat"), row_id=f"{row:012x}")
        for row in range(2, 14)
    ]
    page = render_page(made, shown)
    assert page.count("keep: [&#34;0000000000") == 10
    before, after = page.split("7 more side by side")
    assert before.count("<mark>cat</mark>") == 3
    assert after.count("<mark>cat</mark>") == 7
    kept = DatasetPolicy.model_validate(yaml.safe_load('duplicates: {keep: ["000000000002"]}'), strict=False)
    assert kept.duplicates.keep == ("000000000002",)


def test_of_near_duplicates_that_are_kept_none_is_said_to_have_stayed() -> None:
    note = Note(place=place(8), other=place(2), similarity=0.95)
    made = report(step("duplicates", Finding(reason="near_duplicate", action="warned", count=1, notes=[note])))
    text = text_of(render_page(made, []))
    assert "like row 2" in text
    assert "which stayed" not in text


@pytest.mark.parametrize(("near", "said"), [("remove", True), ("keep", True), ("off", False)])
def test_the_split_says_that_near_copies_stay_together_where_they_are_searched_for(near: str, said: bool) -> None:
    policy = DatasetPolicy.model_validate({"duplicates": {"near": near}})
    text = text_of(render_page(report(policy=policy), []))
    assert ("as do rows that are nearly the same, whatever their answers" in text) == said


@pytest.mark.parametrize(
    ("subject", "entities", "said"),
    [
        ("email", ["PERSON"], 'personal_data: {types: ["card", "ip"]} does not look for these.'),
        ("id", ["PERSON"], "A policy without recogniser does not look for these."),
        ("name", ["PERSON"], "A policy without names does not look for these."),
        ("place", ["PERSON", "LOCATION"], 'personal_data: {names: {model: n.v1, entities: ["PERSON"]}} does not look'),
    ],
)
def test_each_type_of_personal_data_has_the_setting_that_does_not_look_for_it(
    subject: str, entities: list[str], said: str
) -> None:
    personal = {
        "types": ["card", "email", "ip"],
        "recogniser": {"library": "presidio", "entities": ["US_SSN"]},
        "names": {"model": "n.v1", "entities": entities},
    }
    policy = DatasetPolicy.model_validate_json(json.dumps({"personal_data": personal}))
    found = Finding(reason="personal_data", action="warned", count=1, subject=subject, notes=[Note(place=place(3))])
    assert said in unescape(text_of(render_page(report(step("personal_data", found), policy=policy), [])))


def test_of_a_leak_the_shared_words_are_marked() -> None:
    made = report(step("contamination", finding("contaminated", 1, subject="mmlu")), suites=["mmlu", "arc"])
    shared = "which organ pumps blood through the body"
    page = render_page(made, [exhibit("contamination", "contaminated", 1, f"x {shared} y", None, f"{shared} z")])
    assert re.search(rf"<mark>\s*{shared}\s*</mark>", page)
    assert "arc none" in text_of(page)


def test_exhibits_of_a_reason_go_to_the_subject_whose_rows_they_are() -> None:
    made = report(
        step(
            "contamination",
            finding("contaminated", 1, subject="mmlu", rows=range(5, 6)),
            finding("contaminated", 1, subject="arc", rows=range(6, 7)),
        )
    )
    page = render_page(made, [exhibit("contamination", "contaminated", 6, "only once")])
    assert page.count("only once") == 1
    assert page.index(">arc<") < page.index("only once")


def test_several_files_are_named_with_their_rows() -> None:
    uploads = [Upload(name=name, size=1, sha256="", rows=5) for name in ("one.csv", "two.csv")]
    notes = [Note(place=place(4, "one.csv")), Note(place=place(4, "two.csv"))]
    made = report(step("read", Finding(reason="not_json", action="removed", count=2, notes=notes)), uploads=uploads)
    text = text_of(render_page(made, []))
    assert "one.csv: row 4" in text
    assert "two.csv: row 4" in text


def test_the_policy_as_used_is_shown_and_what_differs_from_the_default() -> None:
    made = report(policy=DatasetPolicy(quality=QualitySettings(filter=("short",)), fields={"prompt": "q"}))
    page = render_page(made, [])
    assert "<code>quality.filter: [short]" in page
    assert "<code>fields: {prompt: q}" in page
    assert "phone_region: auto" in page


def test_many_warnings_are_folded_after_the_first() -> None:
    page = render_page(report(warnings=[f"warning {number}" for number in range(50)]), [])
    assert page.index("warning 7") < page.index("42 more") < page.index("warning 8<")


def test_an_upload_of_nothing_makes_a_page() -> None:
    empty = DatasetReport(
        uploads=[Upload(name="e", size=0, sha256="")],
        policy=DatasetPolicy(),
        form="text",
        rows_read=0,
        splits={side: SplitNumbers() for side in ("train", "validation", "holdout")},
        steps=[StepReport(step="read", rows_in=0, rows_out=0)],
    )
    assert "0 of 0 rows" in text_of(render_page(empty, []))


def nasty_page(word: str) -> str:
    steps = [step("duplicates", Finding(
        reason="near_duplicate", action="removed", count=1, subject=word,
        notes=[Note(place=place(1, word or "f"), detail=word, other=place(2, word or "f"), similarity=0.95)],
    ))]  # fmt: skip
    made = report(
        *steps,
        uploads=[Upload(name=word or "f", size=1, sha256="", rows=1), Upload(name="g", size=1, sha256="")],
        forms={word: 1},
        unused_fields={word: 1},
        splits={"train": SplitNumbers(rows=1, kinds={word: 1})},
        languages={word: 1},
        personal_data={word: 1},
        suites=[word],
        held=[word],
        warnings=[f"{word} `{word}`"],
        policy=DatasetPolicy(fields={"prompt": word}, split=SplitSettings(group_by=word[:100] or None)),
    )
    exhibits = [
        exhibit("duplicates", "near_duplicate", 1, word, 2, word + "."),
        exhibit("personal_data", "personal_data", 1, word),
        exhibit("split", "kept", 1, word),
    ]
    return render_page(made, exhibits, word)


def test_everything_that_comes_from_an_upload_is_escaped() -> None:
    page = nasty_page(NASTY)
    assert "<script" not in page
    assert "<b>bold" not in page
    assert page.count("&lt;script&gt;") > 10


_PLAIN = tags_of(nasty_page("plain"))


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=80) | st.text("<>&\"'`=/ abscript", max_size=60))
def test_no_text_adds_a_tag_or_an_attribute(word: str) -> None:
    found = tags_of(nasty_page(word))
    assert found.tags <= _PLAIN.tags | {"mark", "code", "pre", "ul", "li", "p", "b", "small"}
    assert found.attributes <= _PLAIN.attributes


def test_nothing_is_loaded_from_elsewhere_and_scripts_are_forbidden() -> None:
    page = render_page(report(), [])
    assert "default-src 'none'" in page
    assert not re.search(r"https?://|<script|<link|<img|@import|url\(", page)


@given(st.text("ab <&\n", max_size=900), st.text("ab <&\n", max_size=900), st.booleans())
def test_marking_changes_no_word(text: str, other: str, shared: bool) -> None:
    for marked, original in zip(mark_differences(text, other, shared=shared), (text, other), strict=True):
        plain = re.sub("</?mark>", "", str(marked)).replace("&lt;", "<").replace("&amp;", "&")
        assert plain.removeprefix("… ").removesuffix(" …") in original


def test_a_cut_text_keeps_its_end() -> None:
    text = "a" * SHOWN + "the end"
    assert cut_middle(text).endswith("the end")
    assert cut_middle("short") == "short"


def test_bars_of_the_flow_are_shares_of_the_most_rows() -> None:
    first, second = flow_of(
        report(step("read", finding("not_json", 500)), StepReport(step="mix", rows_in=500, rows_out=2000))
    )
    assert (first.stay, first.removed, first.added, first.said) == (0.25, 0.25, 0, "500 left out")
    assert (second.stay, second.removed, second.added, second.said) == (0.25, 0, 0.75, "1,500 added")


@pytest.mark.parametrize(
    ("rows", "text"),
    [([9, 3, 4, 5, 1200, 1201], "3–5, 9, 1,200–1,201"), ([], ""), ([7, 7], "7")],
)
def test_row_numbers_are_written_as_ranges(rows: list[int], text: str) -> None:
    assert row_ranges(rows) == text


def test_the_page_says_by_which_country_phone_numbers_were_read() -> None:
    assert "by the language and the country codes of their row" in render_page(report(personal_data={"phone": 1}), [])
    named = DatasetPolicy(personal_data=PersonalDataSettings(phone_region="GB"))
    assert "were read by GB" in render_page(report(personal_data={"phone": 1}, policy=named), [])
