"""``ft dataset near``: datasketch over a version's signatures finds what comparing every row finds."""

import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ft_assets.workers.datasets.similarity.folded import bare_texts
from ft_assets.workers.datasets.similarity.nearest import banding_for, lean_minhashes, nearest_rows
from ft_resources.errors import UserError
from tests.workers.datasets.test_version_diff import row, version

xxhash = pytest.importorskip("xxhash")
WORDS = (Path(__file__).parents[4] / "ft_assets/demo/suites/book_cloze/items.jsonl").read_text().split()


def grams(text: str) -> set[str]:
    (bare,) = bare_texts(pa.array([text])).to_pylist()
    return {bare[at : at + 5] for at in range(max(1, len(bare) - 4))}


def texts_near(text: str, seed: int, count: int) -> list[str]:
    """Copies of ``text`` with more and more words replaced, among texts that have nothing to do with it."""
    draw = random.Random(seed)
    found = []
    for number in range(count):
        words = text.split()
        for place in draw.sample(range(len(words)), number * len(words) // (2 * count)):
            words[place] = draw.choice(WORDS)
        found += [" ".join(words), " ".join(draw.choices(WORDS, k=40))]
    return found


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.9])
@settings(max_examples=8)
@given(seed=st.integers(0, 2**32))
def test_it_finds_what_comparing_every_row_finds(
    tmp_path_factory: pytest.TempPathFactory, threshold: float, seed: int
) -> None:
    text = " ".join(random.Random(seed).choices(WORDS, k=60))
    rows = [row(f"Say {number}.", each) for number, each in enumerate(texts_near(text, seed, 30))]
    files = version(tmp_path_factory.mktemp("near") / "a", train=rows[:40], holdout=rows[40:])
    wanted = f"say 7: {text.upper()}"
    mine = grams(wanted)
    exact = {}
    for number, each in enumerate(rows):
        theirs = grams("\n".join(turn["content"] for turn in each["messages"]))
        exact[each["id"]] = (len(mine & theirs) / len(mine | theirs), "train" if number < 40 else "holdout")
    due = {name: found for name, found in exact.items() if found[0] >= threshold}
    assert due
    found = nearest_rows(files, wanted, threshold=threshold, most=100)
    assert {near.id: (near.similarity, near.split) for near in found} == due
    assert [near.similarity for near in found] == sorted((each for each, _ in due.values()), reverse=True)
    assert all(abs(near.estimate - near.similarity) < 0.25 for near in found)
    assert nearest_rows(files, wanted, threshold=threshold, most=2) == found[:2]


@given(st.text(min_size=1, max_size=60))
def test_signatures_are_datasketch_s_own_objects(text: str) -> None:
    from datasketch import LeanMinHash, MinHash

    theirs = MinHash(num_perm=128, seed=1, scheme="affine32", hashfunc=xxhash.xxh32_intdigest)
    shingles = [text[at : at + 5] for at in range(len(text) - 4)] or [text]
    theirs.update_batch([shingle.encode() for shingle in shingles])
    (ours,) = lean_minhashes(pa.array([text]))
    assert ours == LeanMinHash(theirs)
    assert ours.jaccard(theirs) == 1
    data = bytearray(ours.bytesize())
    ours.serialize(data)
    assert LeanMinHash.deserialize(data) == ours


@pytest.mark.parametrize("threshold", [0.2, 0.3, 0.5, 0.7, 0.9, 1.0])
def test_at_every_threshold_one_pair_in_a_thousand_is_missed_at_most(threshold: float) -> None:
    bands, rows = banding_for(threshold)
    assert bands * rows <= 128
    assert 1 - (1 - threshold**rows) ** bands >= 0.999


def test_what_nothing_can_be_near_to_is_refused(tmp_path: Path) -> None:
    files = version(tmp_path / "a", train=[row("What?", "That.")])
    with pytest.raises(UserError, match="no letters and no digits"):
        nearest_rows(files, "…!", threshold=0.5, most=1)
    with pytest.raises(UserError, match=r"from 0\.2 to 1, not 0\.1"):
        nearest_rows(files, "What?", threshold=0.1, most=1)
