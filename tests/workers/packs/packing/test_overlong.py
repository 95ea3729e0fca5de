"""Documents longer than a window: nothing learned is cut away, and no token of a text is lost."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.workers.packs.packing import pieces, shorten

# Tokens of a document: two contents that are not learned, learned text, what the template wrote.
documents = st.text("tulc", min_size=1, max_size=40)


def _shorten(document: str, max_length: int) -> list[int] | None:
    """Which tokens of a document go."""
    contents = np.array(["ctu".find(token) if token != "l" else 1 for token in document], np.int8)
    keep = shorten(np.array(list(document)) == "l", contents, max_length)
    return None if keep is None else np.flatnonzero(~keep).tolist()


def _kept(document: str, max_length: int) -> str | None:
    """What is left of a document."""
    gone = _shorten(document, max_length)
    return None if gone is None else "".join(token for n, token in enumerate(document) if n not in gone)


@given(documents, st.integers(1, 50))
def test_a_shortened_document_fits_exactly_and_loses_only_ends_of_contents_that_are_not_learned(
    document: str, max_length: int
) -> None:
    kept = _kept(document, max_length)
    # Of each content a token stays.
    shortest = re.sub(r"t+", "t", re.sub(r"u+", "u", document))
    if kept is None:
        assert len(shortest) > max_length
        return
    assert len(kept) == min(len(document), max_length)
    assert re.sub(r"t+", "t", re.sub(r"u+", "u", kept)) == shortest
    assert kept[0] == document[0]


def test_the_longest_text_loses_its_end_and_others_only_if_that_is_not_enough() -> None:
    document = "ctttcttttttcll"
    assert _shorten(document, 14) == []
    assert _shorten(document, 12) == [9, 10]
    assert _shorten(document, 8) == [3, 6, 7, 8, 9, 10]
    assert _shorten(document, 7) == [2, 3, 6, 7, 8, 9, 10]
    assert _shorten(document, 6) is None


def test_of_two_equally_long_texts_the_earlier_is_cut() -> None:
    assert _shorten("ctttcttt", 7) == [3]


def test_contents_that_touch_are_cut_each_by_itself() -> None:
    assert _shorten("cttuuucl", 7) == [5]
    assert _shorten("cttuuucl", 5) == [2, 4, 5]


@given(st.integers(1, 10_000), st.integers(1, 600))
def test_pieces_cover_a_text_once_fit_and_are_never_crumbs(length: int, max_length: int) -> None:
    sizes = np.diff(pieces(length, max_length))
    assert sizes.sum() == length
    assert (sizes <= max_length).all()
    assert len(sizes) == -(-length // max_length)
    assert sizes.min() >= max(min(length, max_length // 8), 1)
    # All but the last two are whole windows: each token is predicted from as much text as there is room for.
    assert (sizes[:-2] == max_length).all()


def test_only_a_crumb_takes_from_the_piece_before_it() -> None:
    assert pieces(100, 40).tolist() == [0, 40, 80, 100]
    assert pieces(81, 40).tolist() == [0, 40, 76, 81]
    assert pieces(80, 40).tolist() == [0, 40, 80]
    assert pieces(7, 40).tolist() == [0, 7]


@pytest.mark.parametrize(("length", "max_length"), [(0, 5), (5, 0)])
def test_nothing_cannot_be_cut_into_pieces(length: int, max_length: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        pieces(length, max_length)
