"""The page in a real browser: it fits, loads nothing, and hostile text does nothing."""

import json
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
from tests.workers.datasets.reporting.browser import chromium, has_chromium, show, too_wide
from tests.workers.datasets.reporting.made import FILE, exhibit, place, report

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not has_chromium(), reason="needs chromium, chromedriver and selenium"),
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


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_sticks_out_of_the_window(browser: Any, hostile: Path, width: int) -> None:
    show(browser, hostile, width)
    browser.execute_script("document.querySelectorAll('details').forEach(each => each.open = true)")
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
