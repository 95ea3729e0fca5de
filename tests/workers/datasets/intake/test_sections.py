"""Plain text in pieces: nothing lost, ends where text ends, sections small enough to be split."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.workers.datasets.intake.sections import SECTION_PIECES, Block, is_heading, piece_lines

SENTENCE = "The quick brown fox jumps over the lazy dog. "


def pieces(texts: list[str], limit: int = 400) -> list[dict[str, Any]]:
    blocks = [Block(text, 0, is_heading(text)) for text in texts]
    return [json.loads(line) for line in piece_lines(blocks, "book.txt", limit)]


@given(st.lists(st.text(alphabet="ab .\n!", min_size=1, max_size=900).filter(str.strip), max_size=20))
def test_pieces_hold_every_word_in_order_and_none_is_too_long(texts: list[str]) -> None:
    found = pieces(texts, 200)
    assert "".join("".join(row["text"].split()) for row in found) == "".join("".join(text.split()) for text in texts)
    assert all(0 < len(row["text"]) <= 200 for row in found)


def test_a_long_paragraph_is_cut_at_sentences() -> None:
    found = pieces([SENTENCE * 50])
    assert len(found) > 4
    assert all(row["text"].startswith("The quick") and row["text"].endswith("dog.") for row in found)


def test_a_text_without_headings_is_many_sections_of_a_few_pieces() -> None:
    found = pieces([f"{number}: {SENTENCE * 8}" for number in range(300)])
    sizes = Counter(row["source"] for row in found)
    assert len(sizes) == 300 // SECTION_PIECES
    assert max(sizes.values()) == SECTION_PIECES


def test_a_heading_starts_a_section_and_a_table_of_contents_is_one_piece() -> None:
    chapter = [SENTENCE * 5] * 3
    contents = ["CONTENTS", "Chapter I", "Chapter II"]
    found = pieces([*contents, "Chapter I", *chapter, "Chapter II", *chapter])
    assert found[0]["text"].startswith("CONTENTS\n\nChapter I\n\nChapter II\n\nChapter I\n\nThe quick")
    second = next(row for row in found if row["text"].startswith("Chapter II"))
    assert second["source"] != found[0]["source"]


def test_a_change_in_one_section_leaves_the_others_lines_alone() -> None:
    chapters = [text for number in range(20) for text in (f"Chapter {number}", f"{number} {SENTENCE * 20}")]
    before = {json.dumps(row) for row in pieces(chapters)}
    chapters[21] += "One more sentence."
    after = [json.dumps(row) for row in pieces(chapters)]
    assert 0 < sum(row not in before for row in after) <= 4


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("# Title", True),
        ("CHAPTER IV", True),
        ("Chapter 12. In which nothing happens", True),
        ("2.1 Methods", True),
        ("THE WHITE WHALE", True),
        ("XII.", True),
        ("3. Mix the flour.", False),
        ("He said so,", False),
        ("I", True),
        ("It rained.", False),
        ("Part of it was true", False),
        ("3 men came to the house", False),
        ("two\nlines", False),
        ("", False),
    ],
)
def test_headings_are_told_from_sentences(line: str, heading: bool) -> None:
    assert is_heading(line) is heading
