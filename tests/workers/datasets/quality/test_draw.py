"""Balance and mix: which rows are drawn follows from their content alone."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.settings.dataset.policy import BalanceSettings, MixSettings
from ft_assets.workers.datasets.quality.balance import balance
from ft_assets.workers.datasets.quality.draw import draw_order, leading_words, lowest
from ft_assets.workers.datasets.quality.mix import sample_mix
from ft_resources.errors import BadData
from tests.workers.datasets.quality.made import keys_of

CATEGORIES = st.lists(st.sampled_from(["", "a", "b", "c", "d"]), max_size=80)


def general(share: float, dataset: str = "acme.general.v1") -> MixSettings:
    return MixSettings(dataset=dataset, share=share)


@given(CATEGORIES, st.floats(1, 4))
def test_no_category_has_more_than_its_share_of_the_median_and_no_other_loses_rows(
    categories: list[str], ratio: float
) -> None:
    keep = balance(pa.array(categories, pa.string()), keys_of(range(len(categories))), BalanceSettings(max_ratio=ratio))
    before = Counter(categories)
    after = Counter(name for name, kept in zip(categories, keep, strict=True) if kept)
    sizes = [count for name, count in before.items() if name]
    most = max(1, int(ratio * float(np.median(sizes)))) if sizes else 0
    assert after == {name: min(count, most) if name else count for name, count in before.items()}


@given(CATEGORIES, st.randoms(use_true_random=False))
def test_balance_keeps_the_same_rows_in_any_order(categories: list[str], random: object) -> None:
    order = list(range(len(categories)))
    random.shuffle(order)  # type: ignore[attr-defined]
    keep = balance(pa.array(categories, pa.string()), keys_of(order), BalanceSettings())
    shuffled = balance(
        pa.array([categories[at] for at in order], pa.string()), keys_of([order[at] for at in order]), BalanceSettings()
    )
    assert keep[order].tolist() == shuffled.tolist()


def test_one_category_alone_stays_whole() -> None:
    assert balance(pa.array(["a"] * 9), keys_of(range(9)), BalanceSettings()).all()
    assert balance(pa.array([""] * 9), keys_of(range(9)), BalanceSettings()).all()


@given(st.lists(st.integers(0, 30), max_size=60), st.integers(0, 20))
def test_the_lowest_keys_are_those_of_a_full_sort(values: list[int], count: int) -> None:
    keys = keys_of(values)
    expected = sorted(sorted(range(len(values)), key=lambda at: (keys[at].as_py(), at))[:count])
    assert lowest(keys, count).tolist() == expected
    assert draw_order(keys).tolist() == sorted(range(len(values)), key=lambda at: (keys[at].as_py(), at))


def test_keys_of_a_slice_are_its_own() -> None:
    keys = keys_of(range(10))
    assert leading_words(keys.slice(3, 4)).tolist() == leading_words(keys)[3:7].tolist()


def test_shares_are_of_the_training_rows_afterwards() -> None:
    mix = sample_mix(
        [general(0.08), MixSettings(dataset="acme.safety.v1", share=0.02, purpose="safety")],
        900,
        [keys_of(range(500)), keys_of(range(1000, 1100))],
    )
    assert [(each.rows, each.share, each.purpose) for each in mix.mixed] == [
        (80, 0.08, "general"),
        (20, 0.02, "safety"),
    ]
    assert mix.warnings == []
    assert all((np.diff(rows) > 0).all() for rows in mix.rows)


def test_too_few_candidates_are_all_taken_and_warned_about() -> None:
    mix = sample_mix([general(0.5)], 1000, [keys_of(range(10))])
    assert mix.rows[0].tolist() == list(range(10))
    assert mix.mixed[0].share == pytest.approx(10 / 1010)
    assert mix.warnings == [
        "acme.general.v1 has 10 rows to mix in, 1,000 were wanted; all of them are taken. Lower its share (0.5) or "
        "name a larger dataset."
    ]


def test_no_row_is_mixed_in_twice() -> None:
    mix = sample_mix([general(0.3), general(0.3, "acme.other.v1")], 4, [keys_of([1, 2, 2]), keys_of([2, 3, 1, 4])])
    first, second = (set(rows.tolist()) for rows in mix.rows)
    assert first == {0, 1}
    assert second == {1, 3}


@given(st.integers(1, 200), st.floats(0.01, 0.4), st.floats(0.01, 0.4))
def test_a_larger_share_holds_the_rows_of_a_smaller_one(rows: int, one: float, two: float) -> None:
    small, large = sorted((one, two))
    keys = keys_of(range(150))
    assert set(sample_mix([general(small)], rows, [keys]).rows[0]) <= set(
        sample_mix([general(large)], rows, [keys]).rows[0]
    )


def test_shares_that_leave_no_room_for_own_rows_are_refused() -> None:
    with pytest.raises(BadData, match=r"the shares of mix are 0\.9 together"):
        sample_mix([general(0.5), general(0.4)], 100, [keys_of([1]), keys_of([2])])


def test_nothing_to_mix_is_nothing() -> None:
    assert sample_mix([], 100, []).rows == []
    assert sample_mix([general(0.1)], 0, [keys_of([1])]).mixed[0].rows == 0
