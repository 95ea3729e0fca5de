"""Packing: every document once and whole, no window overflows, and no fewer windows would do."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ft_assets.workers.packs.packing import pack

MAX_LENGTH = 32
some_lengths = st.lists(st.integers(1, MAX_LENGTH), max_size=300)
# What is hard to pack, as functions of a window's length: (length, how many) pairs.
HARD = {
    "all equal": lambda length: [(length // 3, 100)],
    "all as long as a window": lambda length: [(length, 50)],
    "all of one token": lambda length: [(1, 1000)],
    "just over a half": lambda length: [(length // 2 + 1, 40)],
    "just over a half and just under": lambda length: [(length // 2 + 1, 40), (length - length // 2 - 1, 40)],
    "just over a third": lambda length: [(length // 3 + 1, 100)],
    "geometric": lambda length: [(max(length >> power, 1), 7 << power) for power in range(8)],
    "nothing adds up": lambda length: [(7 * number, 3) for number in range(1, length // 7)],
    "long ones without short ones": lambda length: [(number, 2) for number in range(length // 3, length, 3)],
}


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """A fresh checkout compiles for seconds, which is not the fault of the first example that hypothesis tries."""
    pack(np.array([6, 6, 6, 6, 6]), max_length=16, seed=0)


def _pack(lengths: list[int], seed: int = 0, max_length: int = MAX_LENGTH) -> list[list[int]]:
    """Documents of each window."""
    layout = pack(np.array(lengths, np.int64), max_length=max_length, seed=seed)
    return [layout.order[start:end].tolist() for start, end in itertools.pairwise(layout.window_offsets)]


def _best_fit_decreasing(lengths: list[int], max_length: int) -> int:
    """Windows of the plain algorithm, one document at a time."""
    rooms: list[int] = []
    for length in sorted(lengths, reverse=True):
        fitting = [room for room in rooms if room >= length]
        if fitting:
            rooms.remove(min(fitting))
        rooms.append((min(fitting) if fitting else max_length) - length)
    return len(rooms)


def _require_sound(windows: list[list[int]], lengths: list[int], max_length: int) -> None:
    assert sorted(document for window in windows for document in window) == list(range(len(lengths)))
    assert all(window for window in windows)
    assert all(sum(lengths[document] for document in window) <= max_length for window in windows)


@given(st.data(), st.one_of(st.just(MAX_LENGTH), st.integers(1, 5000)), st.integers(0, 2**31 - 1))
def test_every_document_is_in_exactly_one_window_and_no_window_overflows(
    data: st.DataObject, max_length: int, seed: int
) -> None:
    lengths = data.draw(st.lists(st.integers(1, max_length), max_size=100))
    _require_sound(_pack(lengths, seed, max_length), lengths, max_length)


few_share_a_window = st.lists(st.integers(MAX_LENGTH // 4, MAX_LENGTH // 2 + 2), min_size=20, max_size=200)


@given(st.one_of(some_lengths, few_share_a_window))
def test_never_more_windows_than_plain_best_fit_decreasing(lengths: list[int]) -> None:
    assert len(_pack(lengths)) <= _best_fit_decreasing(lengths, MAX_LENGTH)


@pytest.mark.parametrize("kind", HARD)
@pytest.mark.parametrize("max_length", [64, 1000])
def test_hard_lengths_are_packed_no_worse_than_by_best_fit(kind: str, max_length: int) -> None:
    lengths = [length for length, count in HARD[kind](max_length) for _ in range(count)]
    windows = _pack(lengths, max_length=max_length)
    _require_sound(windows, lengths, max_length)
    assert len(windows) <= _best_fit_decreasing(lengths, max_length)


@given(st.lists(st.lists(st.integers(1, 8), min_size=1, max_size=8), min_size=1, max_size=40))
def test_best_fit_alone_is_best_fit_decreasing(parts: list[list[int]]) -> None:
    # It is what packing falls back on, so what it promises is looked at for itself.
    from ft_assets.workers.packs.packing.best_fit import best_fit

    lengths = [sum(part) % MAX_LENGTH + 1 for part in parts for _ in range(part[0])]
    histogram = np.bincount(lengths, minlength=MAX_LENGTH + 1)
    runs, counts, edges, repeats = best_fit(histogram)
    used = np.zeros_like(histogram)
    for filling, repeat in enumerate(repeats):
        inside = slice(edges[filling], edges[filling + 1])
        assert runs[inside] @ counts[inside] <= MAX_LENGTH
        np.add.at(used, runs[inside], counts[inside] * repeat)
    assert (used == histogram).all()
    assert repeats.sum() == _best_fit_decreasing(lengths, MAX_LENGTH)


def _like_answers(count: int, median: float, spread: float, seed: int) -> NDArray[np.int64]:
    """Lengths as questions and answers have them."""
    lengths = np.exp(np.random.RandomState(seed).standard_normal(count) * spread) * median
    return np.clip(lengths, 20, 1024).astype(np.int64)


@pytest.mark.parametrize("max_length", [1024, 2048, 4096])
@pytest.mark.parametrize(("median", "spread"), [(100, 0.5), (200, 0.35), (230, 0.8)])
def test_no_window_is_wasted_on_lengths_as_people_write_them(max_length: int, median: float, spread: float) -> None:
    for seed in range(3):
        lengths = _like_answers(7000, median, spread, seed)
        layout = pack(lengths, max_length=max_length, seed=0)
        assert len(layout.window_offsets) - 1 == -(-int(lengths.sum()) // max_length)


def test_where_no_two_documents_fill_a_window_several_are_found_that_do() -> None:
    # Lengths that differ little: without the subset sums 60 windows are wasted here.
    for seed in range(3):
        lengths = np.random.RandomState(seed).randint(300, 400, 20_000)
        layout = pack(lengths, max_length=4096, seed=0)
        assert len(layout.window_offsets) - 1 <= -(-int(lengths.sum()) // 4096) + 1


@pytest.mark.realdata
def test_no_window_is_wasted_on_real_data() -> None:
    from benchmarks.packing import real_lengths

    # GSM8K, where best-fit wastes most; all take too long to tokenize for a test and are in the benchmark.
    _, lengths = next(real_lengths(Path(os.environ["FT_REAL_DATA"])))
    for max_length in (1024, 2048, 4096):
        layout = pack(lengths, max_length=max_length, seed=0)
        assert len(layout.window_offsets) - 1 == -(-int(lengths.sum()) // max_length)


def test_a_million_documents_need_no_more_memory_than_their_numbers() -> None:
    lengths = _like_answers(1_000_000, 100, 0.7, seed=1)
    layout = pack(lengths, max_length=4096, seed=0)
    assert np.add.reduceat(lengths[layout.order], layout.window_offsets[:-1]).max() <= 4096
    assert len(layout.window_offsets) - 1 == -(-int(lengths.sum()) // 4096)


@given(some_lengths, st.integers(0, 2**31 - 1))
def test_the_order_is_a_function_of_the_seed(lengths: list[int], seed: int) -> None:
    assert _pack(lengths, seed) == _pack(lengths, seed)


def test_another_seed_gives_another_order_of_windows_and_of_equal_documents() -> None:
    lengths = [7] * 50 + [20] * 20
    one, other = _pack(lengths, 1), _pack(lengths, 2)
    assert one != other
    assert sorted(map(len, one)) == sorted(map(len, other))
    assert {frozenset(window) for window in one} != {frozenset(window) for window in other}


def test_every_document_may_come_first_under_some_seed() -> None:
    first = {_pack([8] * 12, seed)[0][0] for seed in range(200)}
    assert first == set(range(12))


def test_the_order_of_a_seed_stays_what_it_was() -> None:
    # A pinned value: packs and with them trainings must be the same under another NumPy, numba or processor.
    assert _pack([5, 9, 31, 16, 16, 2, 20, 12, 7, 7], seed=17) == [[9, 1, 3], [7, 6], [2], [5, 0, 8, 4]]


@pytest.mark.parametrize("lengths", [[0], [MAX_LENGTH + 1], [3, -1]])
def test_a_document_that_no_window_can_hold_is_an_error(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="must lie in"):
        _pack(lengths)


def test_nothing_is_packed_into_no_window() -> None:
    layout = pack(np.empty(0, np.int64), max_length=MAX_LENGTH, seed=0)
    assert (layout.order.tolist(), layout.window_offsets.tolist()) == ([], [0])
