"""Sides: properties that hold for any upload."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.policy import SplitSettings
from ft_assets.workers.datasets.forms.content_keys import prompt_keys
from ft_assets.workers.datasets.forms.parse import parse_lines
from ft_assets.workers.datasets.split import (
    HOLDOUT,
    TRAIN,
    VALIDATION,
    fill_sides,
    join_units,
    sides_of,
    straddling,
    units_of,
)
from tests.workers.datasets.conftest import CurateFiles, WriteRows, told

SEEDS = st.integers(0, 2**31 - 1)
UNIT = st.integers(0, 2**64 - 1)
UNITS = st.lists(UNIT, max_size=60).map(lambda found: np.array(found, np.uint64))
# Few, so that they meet.
PROMPTS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["", "a", "b", "c"])), min_size=1, max_size=40)
LINKS = st.lists(st.tuples(st.integers(0, 39), st.integers(0, 39)), max_size=30)
WIDE = SplitSettings(validation=0.3, holdout=0.3)


def units(rows: list[tuple[int, str]]) -> np.ndarray:
    return units_of(pa.array([prompt for prompt, _ in rows], pa.uint64()), pa.array([group for _, group in rows]))


def linked(links: list[tuple[int, int]], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """``links`` between existing rows, each from the later to the earlier one."""
    pairs = [(max(pair), min(pair)) for pair in links if max(pair) < rows and pair[0] != pair[1]]
    return np.array([at for at, _ in pairs], np.int64), np.array([kept for _, kept in pairs], np.int64)


@given(UNITS, UNITS, SEEDS)
def test_adding_rows_moves_no_other_row(found: np.ndarray, more: np.ndarray, seed: int) -> None:
    split = WIDE.model_copy(update={"seed": seed})
    after = sides_of(np.concatenate([more, found, more]), split)
    assert np.array_equal(sides_of(found, split), after[len(more) : len(more) + len(found)])


@given(PROMPTS, PROMPTS, LINKS, SEEDS)
def test_rows_added_behind_move_only_rows_that_they_join_to_earlier_ones(
    rows: list[tuple[int, str]], more: list[tuple[int, str]], links: list[tuple[int, int]], seed: int
) -> None:
    split = WIDE.model_copy(update={"seed": seed})
    pairs = linked(links, len(rows))
    before = sides_of(join_units(units(rows), *pairs), split)
    after = sides_of(join_units(units([*rows, *more]), *pairs), split)
    assert np.array_equal(before, after[: len(rows)])


@given(PROMPTS, LINKS, SEEDS)
def test_rows_of_a_prompt_a_group_or_a_cluster_are_on_one_side(
    rows: list[tuple[int, str]], links: list[tuple[int, int]], seed: int
) -> None:
    at, kept = linked(links, len(rows))
    sides = sides_of(join_units(units(rows), at, kept), WIDE.model_copy(update={"seed": seed}))
    assert np.array_equal(sides[at], sides[kept])
    for key in {(0, group) if group else (prompt, "") for prompt, group in rows}:
        own = [side for row, side in zip(rows, sides, strict=True) if ((0, row[1]) if row[1] else row) == key]
        assert len(set(own)) <= 1


@given(PROMPTS, st.data())
def test_what_straddles_is_left_out_and_the_holdout_stays(rows: list[tuple[int, str]], data: st.DataObject) -> None:
    found = units(rows)
    sides = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows))), np.uint8)
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), np.bool_)
    lost = straddling(found, sides, kept)
    assert not (lost & ~kept).any()
    assert not (lost & (sides == HOLDOUT)).any()
    left = kept & ~lost
    by_unit: dict[int, set[int]] = {}
    for unit, side in zip(found[left].tolist(), sides[left].tolist(), strict=True):
        by_unit.setdefault(unit, set()).add(side)
    assert all(len(each) == 1 for each in by_unit.values())
    # Nothing else is left out: every unit that had a row has one.
    assert set(found[kept].tolist()) == set(by_unit)


@given(UNITS, SEEDS, st.floats(0.01, 0.3), st.floats(0.01, 0.3))
def test_growing_one_share_takes_rows_from_training_only(
    found: np.ndarray, seed: int, share: float, more: float
) -> None:
    small = SplitSettings(seed=seed, validation=share, holdout=share)
    before = sides_of(found, small)
    for name, side in (("validation", VALIDATION), ("holdout", HOLDOUT)):
        after = sides_of(found, small.model_copy(update={name: share + more}))
        assert set(after[after != before].tolist()) <= {side}
        assert set(before[after != before].tolist()) <= {TRAIN}


@given(UNITS, SEEDS)
def test_sides_that_files_are_given_for_are_not_drawn(found: np.ndarray, seed: int) -> None:
    split = WIDE.model_copy(update={"seed": seed})
    assert HOLDOUT not in sides_of(found, split, holdout=False)
    assert VALIDATION not in sides_of(found, split, validation=False)
    both = sides_of(found, split)
    assert np.array_equal(sides_of(found, split, holdout=False)[both == VALIDATION], both[both == VALIDATION])


@given(UNITS, SEEDS)
def test_an_empty_side_takes_one_unit_and_other_rows_stay(found: np.ndarray, seed: int) -> None:
    split = SplitSettings(seed=seed)
    drawn = sides_of(found, split)
    filled = fill_sides(found, drawn, split)
    for side in (HOLDOUT, VALIDATION):
        if (drawn == side).any():
            assert np.array_equal(filled == side, drawn == side)
        else:
            taken = found[filled == side]
            assert len(set(taken.tolist())) <= 1
            assert len(taken) * 4 <= len(found)
    assert not len(found) or (filled == TRAIN).any() == (drawn == TRAIN).any()
    if len(set(found.tolist())) == len(found) >= 5 and (drawn == TRAIN).sum() >= 3:
        assert set(filled.tolist()) == {TRAIN, VALIDATION, HOLDOUT}


def test_a_side_that_files_are_given_for_is_not_filled() -> None:
    found = np.arange(8, dtype=np.uint64)
    split = SplitSettings(holdout=0.01, validation=0.01)
    filled = fill_sides(found, sides_of(found, split, holdout=False), split, holdout=False)
    assert set(filled.tolist()) == {TRAIN, VALIDATION}


def test_shares_come_out_as_asked_and_another_seed_gives_another_split() -> None:
    lines = "".join(f'{{"prompt": "{number}", "completion": "x"}}\n' for number in range(20_000)).encode()
    keys = prompt_keys(parse_lines(lines, FormSettings(), ended=True).examples)
    found = units_of(keys, pa.array([""] * 20_000))
    split = SplitSettings(validation=0.05, holdout=0.2)
    shares = np.bincount(sides_of(found, split), minlength=3) / 20_000
    assert abs(shares[HOLDOUT] - 0.2) < 0.01
    assert abs(shares[VALIDATION] - 0.05) < 0.01
    other = sides_of(found, split.model_copy(update={"seed": 1}))
    # Independent draws agree in 0.2² + 0.05² + 0.75² of the rows.
    assert abs(np.mean(sides_of(found, split) == other) - 0.605) < 0.02


def test_shares_of_groups_come_out_whatever_their_sizes() -> None:
    groups = [f"g{number}" for number in range(5000)]
    sides = sides_of(units_of(pa.array([0] * 5000, pa.uint64()), pa.array(groups)), SplitSettings(holdout=0.25))
    assert abs(np.mean(sides == HOLDOUT) - 0.25) < 0.02


def test_rows_added_in_front_behind_and_between_leave_each_row_on_its_side(
    write: WriteRows, curated: CurateFiles
) -> None:
    rows = [told(number) for number in range(300)]
    more = [told(number) for number in range(5000, 5090)]
    before, after = (
        curated(write(rows)),
        curated(write([*more[:30], *rows[:150], *more[30:60], *rows[150:], *more[60:]])),
    )
    assert before.sides.items() <= after.sides.items()
    assert len(after.sides) == 390
