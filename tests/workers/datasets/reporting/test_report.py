"""The report as data: what it counts, what it refuses, and that JSON keeps it whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ft_assets.workers.datasets.reporting.pictures import length_histogram_png
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
    assert reason_words("role_order") == "turns in an order that cannot be learned from"
    assert reason_words("too_deep") == "too deep"


def test_the_histogram_picture_is_a_png() -> None:
    assert length_histogram_png([1, 2, 4], [3, 5]).startswith(b"\x89PNG")
