"""Documents longer than a window: nothing learned is cut away, and no token of a text is lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.packs.packing import pieces, shorten

# Tokens of a document: text that is not learned, learned text, control tokens.
documents = st.text("tlc", min_size=1, max_size=40)


def _kept(document: str, max_length: int) -> str | None:
    """What is left of a document."""
    tokens = np.array(list(document))
    keep = shorten(tokens == "l", tokens == "c", max_length)
    return None if keep is None else "".join(np.array(list(document))[keep])


@given(documents, st.integers(1, 50))
def test_a_shortened_document_fits_exactly_and_keeps_what_is_learned_and_every_control_token(
    document: str, max_length: int
) -> None:
    kept = _kept(document, max_length)
    must_stay = sum(token != "t" for token in document) + (document[0] == "t")
    if kept is None:
        assert must_stay > max_length
        return
    assert len(kept) == min(len(document), max_length)
    assert kept.replace("t", "") == document.replace("t", "")
    assert kept[0] == document[0]


@given(documents, st.integers(1, 50))
def test_the_first_learned_token_keeps_a_token_to_be_predicted_from(document: str, max_length: int) -> None:
    kept = _kept(document, max_length)
    if kept is not None and "l" in kept and document[0] != "l":
        assert kept[0] != "l"


def test_the_longest_text_loses_its_end_and_others_only_if_that_is_not_enough() -> None:
    tokens = np.array(list("ctttcttttttcll"))
    learned, fixed = tokens == "l", tokens == "c"

    def gone(max_length: int) -> list[int]:
        keep = shorten(learned, fixed, max_length)
        assert keep is not None
        return np.flatnonzero(~keep).tolist()

    assert gone(14) == []
    assert gone(12) == [9, 10]
    assert gone(7) == [3, 5, 6, 7, 8, 9, 10]
    assert gone(5) == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    assert shorten(learned, fixed, 4) is None


def test_of_two_equally_long_texts_the_earlier_is_cut() -> None:
    keep = shorten(np.array([False] * 7 + [True]), np.array([True, False, False, False] * 2), 7)
    assert keep is not None
    assert np.flatnonzero(~keep).tolist() == [3]


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
