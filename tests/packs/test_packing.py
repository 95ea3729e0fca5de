from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.packs.packing import pack

MAX_LENGTH = 32
some_lengths = st.lists(st.integers(1, MAX_LENGTH), max_size=300)


def _pack(lengths: list[int], seed: int = 0) -> list[list[int]]:
    """Documents of each window."""
    layout = pack(np.array(lengths, np.int64), max_length=MAX_LENGTH, seed=seed)
    edges = layout.window_offsets
    return [layout.order[start:end].tolist() for start, end in pairwise(edges)]


@given(some_lengths, st.integers(0, 2**31 - 1))
def test_every_document_is_in_exactly_one_window_and_no_window_overflows(lengths: list[int], seed: int) -> None:
    windows = _pack(lengths, seed)
    assert sorted(document for window in windows for document in window) == list(range(len(lengths)))
    assert all(window for window in windows)
    assert all(sum(lengths[document] for document in window) <= MAX_LENGTH for window in windows)


@given(some_lengths)
def test_as_many_windows_as_plain_best_fit_decreasing(lengths: list[int]) -> None:
    rooms: list[int] = []
    for length in sorted(lengths, reverse=True):
        fitting = [room for room in rooms if room >= length]
        if fitting:
            rooms.remove(min(fitting))
        rooms.append((min(fitting) if fitting else MAX_LENGTH) - length)
    assert len(_pack(lengths)) == len(rooms)


@given(some_lengths, st.integers(0, 2**31 - 1))
def test_the_order_is_a_function_of_the_seed(lengths: list[int], seed: int) -> None:
    assert _pack(lengths, seed) == _pack(lengths, seed)


def test_another_seed_gives_another_order_of_windows_and_of_equal_documents() -> None:
    lengths = [7] * 50 + [20] * 20
    assert _pack(lengths, 1) != _pack(lengths, 2)
    assert sorted(map(len, _pack(lengths, 1))) == sorted(map(len, _pack(lengths, 2)))


def test_the_order_of_a_seed_stays_what_it_was() -> None:
    # A pinned value: packs and with them trainings must be the same under another NumPy.
    assert _pack([5, 9, 31, 16, 16, 2, 20, 12, 7, 7], seed=17) == [[4, 3], [2], [6, 7], [1, 9, 8, 0, 5]]


@pytest.mark.parametrize("lengths", [[0], [MAX_LENGTH + 1]])
def test_a_document_that_no_window_can_hold_is_an_error(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="must lie in"):
        _pack(lengths)
