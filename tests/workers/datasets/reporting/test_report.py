"""The report as data: what it counts, what it refuses, and that JSON keeps it whole."""

import base64
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ft_assets.workers.datasets.reporting.pictures import length_picture
from ft_assets.workers.datasets.reporting.reasons import reason_words
from ft_assets.workers.datasets.reporting.report import DatasetReport, Finding, LengthHistogram, Note, Place
from tests.workers.datasets.reporting.made import finding, place, report, step


def test_removed_rows_are_added_up_by_reason_and_others_are_not() -> None:
    made = report(
        step("read", finding("not_json", 3), finding("role_order", 2)),
        step("contamination", finding("contaminated", 4, subject="mmlu"), finding("contaminated", 1, subject="arc")),
        step("quality", finding("short", 9, "warned")),
    )
    assert made.dropped == {"contaminated": 5, "not_json": 3, "role_order": 2}
    assert made.bad_count == 5
    assert made.examples == 1000
    assert made.findings("toxicity") == []


def test_json_keeps_a_report_whole() -> None:
    made = report(step("duplicates", finding("duplicate", 3)))
    assert DatasetReport.model_validate_json(made.model_dump_json()) == made


def test_a_finding_names_at_most_200_rows() -> None:
    notes = [Note(place=place(row)) for row in range(1, 202)]
    with pytest.raises(ValidationError, match="at most 200"):
        Finding(reason="short", action="warned", count=201, notes=notes)


def test_a_report_knows_no_field_for_a_rows_text() -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        Note(place=place(1), text="secret")  # type: ignore[call-arg]


def test_a_place_reads_as_file_and_row() -> None:
    assert str(Place(file="a.csv", row=12_345)) == "a.csv, row 12,345"
    assert str(Place(file="a.csv", row=0)) == "a.csv"


@given(st.lists(st.integers(0, 10**6), max_size=50))
def test_the_histogram_counts_every_length_between_its_edges(lengths: list[int]) -> None:
    counts: dict[int, int] = {}
    for length in lengths:
        counts[length.bit_length()] = counts.get(length.bit_length(), 0) + 1
    histogram = LengthHistogram.from_bit_lengths(counts)
    edges = histogram.edges
    assert sorted(edges) == edges
    for index, count in enumerate(histogram.counts):
        assert count == sum(edges[index] <= length < edges[index + 1] for length in lengths)
    assert sum(histogram.counts) == len(lengths)


def test_a_histogram_without_its_last_edge_is_refused() -> None:
    with pytest.raises(ValidationError, match="one edge more"):
        LengthHistogram(edges=[1, 2], counts=[1, 2])


def test_a_reason_without_words_is_spelled_out() -> None:
    assert reason_words("role_order") == "turns in an order that cannot be trained on"
    assert reason_words("too_deep") == "too deep"


def drawn(edges: list[int], counts: list[int]) -> tuple[list[float], list[str]]:
    """Heights of the picture's bars, and its texts."""
    start, _, data = (
        length_picture("lengths", {"edges": edges, "counts": counts}, "characters")
        .removesuffix(")")
        .partition("base64,")
    )
    assert start == "![lengths](data:image/svg+xml;"
    root = ElementTree.fromstring(base64.b64decode(data))
    bars = root.iter("{http://www.w3.org/2000/svg}rect")
    return [float(bar.attrib["height"]) for bar in bars], list(root.itertext())


def test_the_bars_of_the_histogram_picture_are_as_high_as_their_counts() -> None:
    heights, texts = drawn([1, 2, 4, 1024], [3, 6, 0])
    assert heights[0] * 2 == heights[1] > 0
    assert heights[2] == 0
    assert texts == ["1–1", "3", "2–3", "6", "4–1,023", "0", "characters"]


def test_many_bars_have_no_more_labels_than_have_room_and_none_is_no_error() -> None:
    heights, texts = drawn(list(range(65)), [1] * 64)
    assert len(heights) == 64
    assert len(texts) <= 2 * 9 + 1
    assert drawn([], []) == ([], ["characters"])
