"""The page in a real browser: it fits, loads nothing, and hostile text does nothing."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ft_assets.workers.datasets.reporting.page import render_page
from ft_assets.workers.datasets.reporting.report import (
    Finding,
    LengthHistogram,
    Mixed,
    Note,
    SplitNumbers,
    StepReport,
    Upload,
)
from tests.workers.datasets.reporting.browser import chromium, faint, show, too_wide
from tests.workers.datasets.reporting.everything import curated_with_everything
from tests.workers.datasets.reporting.made import FILE, exhibit, place, report

pytestmark = [
    pytest.mark.browser,
]

LONG = "x" * 900
SCRIPT = "<script>window.hit=1</script><img src='http://ft.invalid/a.png' onerror='window.hit=1'>" + LONG
ARABIC = "مرحبا بكم في هذا النص الطويل الذي يكتب من اليمين إلى اليسار. " * 6
HUGE = 10**11


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with long words, markup, right-to-left text and huge counts wherever a tenant's words may stand."""
    note = Note(place=place(HUGE, LONG), detail=SCRIPT, other=place(HUGE + 5), similarity=0.95)
    near = Finding(reason="near_duplicate", action="removed", count=HUGE - 1, notes=[note] * 200, subject=SCRIPT)
    made = report(
        StepReport(step="read", rows_in=HUGE, rows_out=HUGE),
        StepReport(step="duplicates", rows_in=HUGE, rows_out=1, findings=[near]),
        StepReport(step="mix", rows_in=1, rows_out=2),
        uploads=[Upload(name=name, size=HUGE, sha256="ab" * 32, rows=HUGE) for name in (LONG, FILE)],
        rows_read=HUGE,
        forms={LONG: HUGE},
        unused_fields={SCRIPT: HUGE},
        splits={
            "train": SplitNumbers(rows=HUGE, characters=HUGE * 500, kinds={LONG: HUGE, ARABIC: 5, SCRIPT: 1}),
            "validation": SplitNumbers(),
            "holdout": SplitNumbers(rows=1),
        },
        length_histogram=LengthHistogram.from_bit_lengths(dict.fromkeys(range(31), HUGE)),
        languages={f"l{number}": number for number in range(1, 30)},
        personal_data={LONG: HUGE},
        suites=[SCRIPT],
        mixed=[Mixed(dataset=LONG, purpose="general", rows=HUGE, share=0.5)],
        held=[SCRIPT],
        warnings=[f"{number} {SCRIPT}" for number in range(50)],
    )
    exhibits = [
        exhibit("duplicates", "near_duplicate", HUGE, ARABIC, 2, ARABIC.replace("النص", "الكتاب")),
        exhibit("personal_data", "personal_data", 3, SCRIPT),
        exhibit("split", "kept", 4, "\u202e" + SCRIPT),
    ]
    path = tmp_path_factory.mktemp("page") / "hostile.html"
    path.write_text(render_page(made, exhibits), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a curation in which each check finds something."""
    folder = tmp_path_factory.mktemp("found")
    return curated_with_everything(folder).path("report/report.html", folder)


def opened(browser: Any, page: Path, width: int, *, dark: bool = False) -> None:
    """Load ``page`` with all that a click would open."""
    show(browser, page, width, dark=dark)
    browser.execute_script("document.querySelectorAll('details').forEach(each => each.open = true)")


def findings(browser: Any) -> dict[str, Any]:
    """The findings on the page by their headings."""
    return {each.find_element("tag name", "h3").text: each for each in browser.find_elements("class name", "finding")}


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_a_page_with_all_findings_fits_and_can_be_read(browser: Any, found: Path, width: int, dark: bool) -> None:
    opened(browser, found, width, dark=dark)
    assert too_wide(browser, width) == []
    assert faint(browser) == []


def test_a_person_can_check_every_finding_on_the_page(browser: Any, found: Path) -> None:
    opened(browser, found, 1280)
    shown = {title: each.text for title, each in findings(browser).items()}
    assert {title: re.findall(r"^(\d+) rows?$", text, re.MULTILINE) for title, text in shown.items()} == {
        "A field that is missing or of the wrong type": ["1"],
        "The same text as an earlier row": ["1"],
        "Nearly the same text as an earlier row": ["6"],
        "Text of a test item exam.v1": ["2"],
        "Rows of an earlier version's holdout, or near-duplicates of them": ["36"],
        "Text that is also in the holdout": ["3"],
        "A paraphrase of a test item exam.v1": ["1"],
        "Personal data or secrets payment cards": ["1"],
        "Personal data or secrets phone numbers": ["2"],
        "Personal data or secrets e-mail addresses": ["1"],
        "Personal data or secrets keys, tokens and passwords": ["1"],
    }
    assert all("To change this." in text for text in shown.values())
    whole = browser.find_element("tag name", "body").text
    assert "guide.md: 3 pictures are left out" in whole
    for secret in ("AKIAQ3EGRIPA7SD2XKLM", "wJalrXUtnFEMI", "maria.lopez", "555-0187", "901820", "4111"):
        assert secret not in whole


@pytest.mark.parametrize(("width", "across"), [(1280, True), (360, False)])
def test_near_duplicates_stand_side_by_side_with_what_undoes_each(
    browser: Any, found: Path, width: int, across: bool
) -> None:
    opened(browser, found, width)
    near = findings(browser)["Nearly the same text as an earlier row"]
    pairs = near.find_elements("class name", "pair")
    assert len(pairs) == 6
    for pair in pairs:
        left, right = (each.rect for each in pair.find_elements("class name", "text"))
        # On a phone one stands below the other.
        assert (left["y"] == right["y"], left["x"] + left["width"] <= right["x"]) == (across, across)
        assert "stayed" in pair.text
    undone = re.findall(r'duplicates: \{keep: \["(\w{12,})"\]\} keeps tickets\.jsonl, row (\d+)\.', near.text)
    assert [row for _, row in undone] == [str(row) for row in range(241, 247)]
    assert [each.text for each in pairs[0].find_elements("tag name", "mark")] == ["today"]


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_sticks_out_of_the_window(browser: Any, hostile: Path, width: int) -> None:
    opened(browser, hostile, width)
    assert too_wide(browser, width) == []


def test_the_page_asks_for_nothing_and_hostile_text_is_inert(browser: Any, hostile: Path) -> None:
    browser.get_log("performance")
    show(browser, hostile, 1280)
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]
    assert asked == [hostile.as_uri()]
    assert browser.execute_script("return window.hit === undefined")
    assert browser.execute_script("return document.querySelectorAll('script, img, iframe, object, link').length") == 0
    assert "window.hit=1" in browser.find_element("tag name", "body").text


def test_right_to_left_text_runs_from_right_to_left_inside_its_box(browser: Any, hostile: Path) -> None:
    show(browser, hostile, 1280)
    direction = "return getComputedStyle(document.querySelectorAll('.name')[1]).direction"
    assert browser.execute_script(direction) == "rtl"
    assert browser.execute_script("return getComputedStyle(document.querySelector('main')).direction") == "ltr"


def test_dark_and_light_differ(browser: Any, hostile: Path) -> None:
    grounds = []
    for dark in (False, True):
        show(browser, hostile, 1280, dark=dark)
        grounds.append(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(244, 246, 249)", "rgb(16, 20, 26)"]
