"""Preference examples: a window each, neighbours alike in length."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.workers.packs.packing import one_by_one

MAX_LENGTH = 32
pairs = st.lists(st.tuples(st.integers(1, MAX_LENGTH), st.integers(1, MAX_LENGTH)), max_size=60)


def _examples(lengths: list[tuple[int, int]], seed: int = 0, bucket: int = 4) -> list[int]:
    """The example of each window, checked to be whole: chosen first, rejected behind it."""
    array = np.array(lengths, np.int64).reshape(-1, 2)
    layout = one_by_one(array, max_length=MAX_LENGTH, seed=seed, bucket=bucket)
    assert layout.window_offsets.tolist() == list(range(0, 2 * len(lengths) + 1, 2))
    chosen, rejected = layout.order.reshape(-1, 2).T
    assert (rejected == chosen + 1).all()
    assert (chosen % 2 == 0).all()
    return (chosen // 2).tolist()


@given(pairs, st.integers(0, 2**31 - 1), st.integers(1, 9))
def test_every_example_is_in_one_window_with_both_its_documents(
    lengths: list[tuple[int, int]], seed: int, bucket: int
) -> None:
    assert sorted(_examples(lengths, seed, bucket)) == list(range(len(lengths)))


@given(pairs, st.integers(0, 2**31 - 1), st.integers(1, 9))
def test_blocks_are_cuts_of_the_examples_sorted_by_length(
    lengths: list[tuple[int, int]], seed: int, bucket: int
) -> None:
    tokens = [sum(lengths[example]) for example in _examples(lengths, seed, bucket)]
    blocks = [tokens[first : first + bucket] for first in range(0, len(tokens), bucket)]
    assert all(block == sorted(block) for block in blocks)
    assert [token for block in sorted(blocks) for token in block] == sorted(tokens)
    assert all(len(block) == bucket for block in blocks[:-1])


def test_the_seed_decides_the_order_of_blocks_and_of_equal_examples() -> None:
    lengths = [(n // 4 + 1, 3) for n in range(40)]
    assert _examples(lengths, 1) == _examples(lengths, 1)
    assert _examples(lengths, 1) != _examples(lengths, 2)
    assert _examples([(3, 3)] * 12, 1) != _examples([(3, 3)] * 12, 2)


def test_the_order_of_a_seed_stays_what_it_was() -> None:
    assert _examples([(5, 5), (1, 2), (9, 9), (3, 3), (7, 1)], seed=17, bucket=2) == [1, 3, 4, 0, 2]


def test_any_number_of_documents_may_belong_to_an_example() -> None:
    layout = one_by_one(np.array([[9, 9, 9], [1, 1, 1]]), max_length=9, seed=0, bucket=2)
    assert layout.order.tolist() == [3, 4, 5, 0, 1, 2]
    assert layout.window_offsets.tolist() == [0, 3, 6]


def test_documents_that_are_too_long_and_empty_buckets_are_errors() -> None:
    with pytest.raises(ValueError, match="must lie in"):
        one_by_one(np.array([[1, MAX_LENGTH + 1]]), max_length=MAX_LENGTH, seed=0, bucket=1)
    with pytest.raises(ValueError, match="at least 1"):
        one_by_one(np.array([[1, 1]]), max_length=MAX_LENGTH, seed=0, bucket=0)
