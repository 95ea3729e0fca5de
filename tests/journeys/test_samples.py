"""What ``ft run`` ends with: a few answers beside the base's, and the address of the page."""

from pathlib import Path

import pytest

from ft_assets.cli.samples import one_line, print_samples
from ft_assets.records.submissions import find_submission
from tests.journeys import Journey


def test_a_run_ends_with_answers_beside_the_base_s_and_the_address_of_its_page(
    accepted: Journey, capsys: pytest.CaptureFixture[str]
) -> None:
    submission = find_submission(accepted.store, "acme", accepted.submission)
    assert submission is not None
    print_samples(accepted.store, submission)
    shown = capsys.readouterr().out
    questions = [line for line in shown.splitlines() if line.startswith("question  ")]
    assert 1 <= len(questions) <= 5
    for who in ("wanted", "base", "result"):
        assert sum(line.startswith(f"{who:10}") for line in shown.splitlines()) == len(questions)
    (page,) = (line.removeprefix("all of it: ") for line in shown.splitlines() if line.startswith("all of it: "))
    assert "<html" in Path(page).read_text(encoding="utf-8")


@pytest.mark.parametrize("hostile", ["\x1b[2Jgone", "a\u202eb", "two\r\nlines", "\x9b31m", "\u2066x"])
def test_no_text_of_others_moves_the_cursor_or_turns_letters_round(hostile: str) -> None:
    assert one_line(hostile).isprintable()
