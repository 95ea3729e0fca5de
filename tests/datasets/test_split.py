"""Splitting and dropping duplicates: properties that hold for any upload."""

import unicodedata
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from ft_assets.datasets.dedup import content_key
from ft_assets.datasets.pipeline import curate_rows
from ft_assets.datasets.policy import DatasetPolicy, SplitSettings
from ft_assets.datasets.rows import RawRow
from ft_assets.datasets.split import Split, split_of
from ft_assets.datasets.tally import Tally
from tests.datasets.conftest import pair

SEEDS = st.integers(0, 2**31 - 1)
ROWS = st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["a", "b", "c", "d"])), max_size=60)


def sides(rows: Iterable[tuple[int, str]], settings: SplitSettings) -> list[tuple[str, str, Split]]:
    """(prompt, group, side) of what curation keeps of rows given as (number, source)."""
    raw = [RawRow(row=i, value=pair(number, source=source)) for i, (number, source) in enumerate(rows, 1)]
    kept = curate_rows(raw, DatasetPolicy(split=settings), Tally())
    return [(example.messages[0]["content"], example.group, split) for split, example in kept]


@given(ROWS, ROWS, SEEDS)
def test_adding_rows_moves_no_other_row(rows: list[tuple[int, str]], more: list[tuple[int, str]], seed: int) -> None:
    settings = SplitSettings(seed=seed, validation=0.3, holdout=0.3)
    before, after = sides(rows, settings), sides([*more, *rows, *more], settings)
    assert {(prompt, split) for prompt, _, split in before} <= {(prompt, split) for prompt, _, split in after}


@given(ROWS, SEEDS)
def test_a_group_is_on_one_side(rows: list[tuple[int, str]], seed: int) -> None:
    found = sides(rows, SplitSettings(group_by="source", seed=seed, validation=0.3, holdout=0.3))
    groups = {(group, split) for _, group, split in found}
    assert len(groups) == len({group for group, _ in groups})


@given(ROWS, SEEDS)
def test_each_conversation_is_kept_once_and_its_first_row_is_the_one(rows: list[tuple[int, str]], seed: int) -> None:
    raw = [RawRow(row=i, value=pair(number)) for i, (number, _) in enumerate(rows, 1)]
    tally = Tally()
    kept = [example for _, example in curate_rows(raw, DatasetPolicy(split=SplitSettings(seed=seed)), tally)]
    first = {number: row for row, (number, _) in reversed(list(enumerate(rows, 1)))}
    assert [example.row for example in kept] == sorted(first.values())
    assert tally.rows == len(rows)


@given(st.binary(min_size=32, max_size=32), SEEDS, st.floats(0.01, 0.3), st.floats(0.01, 0.3))
def test_growing_one_share_takes_rows_from_training_only(key: bytes, seed: int, share: float, more: float) -> None:
    small = SplitSettings(seed=seed, validation=share, holdout=share)
    for grown in ("validation", "holdout"):
        large = small.model_copy(update={grown: share + more})
        before, after = split_of(key, "", small), split_of(key, "", large)
        assert after == before or (before is Split.TRAIN and after == grown)


def test_shares_come_out_as_asked_and_another_seed_gives_another_split() -> None:
    keys = [content_key([{"role": "user", "content": str(number)}]) for number in range(20_000)]
    settings = SplitSettings(validation=0.05, holdout=0.2)
    found = [split_of(key, "", settings) for key in keys]
    assert abs(found.count(Split.HOLDOUT) / 20_000 - 0.2) < 0.01
    assert abs(found.count(Split.VALIDATION) / 20_000 - 0.05) < 0.01
    assert found != [split_of(key, "", settings.model_copy(update={"seed": 1})) for key in keys]


@given(st.text().filter(lambda text: "\r" not in text))
def test_what_a_reader_cannot_see_makes_no_difference_to_duplicates(text: str) -> None:
    def key(content: str, role: str = "user") -> bytes:
        return content_key([{"role": role, "content": content}])

    assert key(text) == key(f" {text}\n") == key(unicodedata.normalize("NFD", text)) == key(text.replace("\n", "\r\n"))
    assert key(text) != key(text + "x")
    assert key(text) != key(text, role="assistant")


def test_where_one_turn_ends_and_the_next_begins_counts() -> None:
    def turns(*texts: str) -> bytes:
        return content_key([{"role": "user", "content": text} for text in texts])

    assert turns("ab", "c") != turns("a", "bc") != turns("abc")
