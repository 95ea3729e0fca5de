"""The index of test items: leaks are found whatever their case and punctuation, and a damaged file is refused."""

import random
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.workers.datasets.similarity.grams import FEWEST, GRAM
from ft_assets.workers.datasets.similarity.ngrams import GramIndex, composed, grams_of
from ft_resources.errors import BadData

ITEM = (
    "A farmer has seventeen sheep and all but nine of them run away one night. How many sheep does the farmer "
    "still have in the morning, before the neighbour brings three of them back?"
)
SHORT = "What is the capital city of Burkina Faso?"


def build(named_texts: Sequence[tuple[str, pa.Array]], path: Path, *, own: bool = False) -> GramIndex:
    grams = ((name, grams_of(composed(texts.to_pylist()))) for name, texts in named_texts)
    return GramIndex.build(grams, path, own=own)


@pytest.fixture
def index(tmp_path: Path) -> GramIndex:
    return build([("maths", pa.array([ITEM, "Yes."])), ("places", pa.array([SHORT, ITEM]))], tmp_path / "i")


def shares(index: GramIndex, *texts: str) -> list[float]:
    found = index.overlap(pa.array(texts))
    return [
        hits / grams if grams else 0.0 for hits, grams in zip(found.hits.tolist(), found.grams.tolist(), strict=True)
    ]


def test_an_item_is_found_whatever_its_case_punctuation_and_spacing(index: GramIndex) -> None:
    assert shares(index, ITEM, ITEM.upper(), "«" + ITEM.replace(" ", "—\n") + "…»") == [1.0, 1.0, 1.0]
    assert index.overlap(pa.array([ITEM])).source.tolist() == [0]
    assert index.sources == ("maths", "places")


def test_a_leak_inside_a_longer_example_counts_by_its_share_of_grams(index: GramIndex) -> None:
    words = ITEM.split()
    around = [f"word{number}" for number in range(100)]
    found = index.overlap(pa.array([" ".join([*around, *words]), " ".join([*around, *words[: GRAM - 1]])]))
    assert found.hits.tolist() == [len(words) - GRAM + 1, 0]
    assert found.grams.tolist() == [100 + len(words) - GRAM + 1, 100]
    assert found.source.tolist() == [0, -1]


def test_a_short_text_matches_a_whole_short_item_and_no_part_of_one(index: GramIndex) -> None:
    assert shares(index, SHORT.lower(), SHORT + " Ouagadougou", " ".join(ITEM.split()[:8])) == [1.0, 0.0, 0.0]
    assert index.overlap(pa.array([SHORT])).source.tolist() == [1]


def test_items_are_composed_like_the_texts_that_forms_give(tmp_path: Path) -> None:
    index = build([("x", pa.array(["cafe\u0301 au lait"]))], tmp_path / "i")
    assert shares(index, "caf\u00e9 au lait") == [1.0]


def test_texts_of_one_or_two_words_have_no_gram(index: GramIndex) -> None:
    found = index.overlap(pa.array(["Yes.", "", None, "thank you", "one two three"], pa.string()))
    assert FEWEST == 3
    assert found.grams.tolist() == [0, 0, 0, 0, 1]
    assert found.hits.tolist() == [0] * 5


def test_the_source_with_the_most_hits_is_named(tmp_path: Path) -> None:
    one, other = (" ".join(f"{name}{number}" for number in range(40)) for name in ("a", "b"))
    index = build([("a", pa.array([one])), ("b", pa.array([other]))], tmp_path / "i")
    mixed = " ".join([*one.split()[:15], *other.split()[:20]])
    found = index.overlap(pa.array([mixed, one]))
    assert found.source.tolist() == [1, 0]
    assert found.hits.tolist() == [3 + 8, 28]


def test_other_scripts_fold_case_and_han_characters_are_words(tmp_path: Path) -> None:
    russian = "Сколько будет дважды два если прибавить ещё пять и потом отнять от всего этого ровно три"
    chinese = "中华人民共和国的首都是哪一个城市呢请回答"
    astral = " ".join("𐐨𐐩" for _ in range(14)) + " 😀"
    index = build([("x", pa.array([russian, chinese, astral]))], tmp_path / "i")
    assert shares(index, russian.upper(), "，".join(chinese), astral) == [1.0, 1.0, 1.0]
    assert index.overlap(pa.array([chinese])).grams.tolist() == [len(chinese) - GRAM + 1]
    assert shares(index, russian.replace("два", "три")) != [1.0]


TEXTS = st.lists(st.text(st.sampled_from("abcABC .,\u00e9文😀\n"), max_size=80), max_size=12)


@given(TEXTS, st.integers(0, 12))
def test_slices_and_batches_change_nothing(texts: list[str], cut: int) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "i"
        array = pa.array(texts, pa.string())
        parts = [("s", array.slice(0, cut)), ("s", array.slice(cut))]
        whole = build([("s", array)], path)
        written = path.read_bytes()
        assert build(parts, path).path.read_bytes() == written
        expected = whole.overlap(array)
        assert np.array_equal(expected.hits, expected.grams)
        rest = whole.overlap(pa.array(["zz", *texts]).slice(1).slice(cut))
        assert np.array_equal(rest.hits, expected.hits[cut:])
        assert np.array_equal(rest.source, expected.source[cut:])


def test_grams_are_those_of_a_plain_implementation(tmp_path: Path) -> None:
    generator = random.Random(7)
    words = [f"w{number}" for number in range(6)]
    items = [" ".join(generator.choices(words, k=30)) for _ in range(60)]
    texts = [" ".join(generator.choices(words, k=generator.randint(1, 40))) for _ in range(300)] + items[:5]

    def grams(text: str) -> list[tuple[str, ...]]:
        given = text.split()
        if len(given) < GRAM:
            return [tuple(given)] if len(given) >= FEWEST else []
        return [tuple(given[at : at + GRAM]) for at in range(len(given) - GRAM + 1)]

    known = {gram for item in items for gram in grams(item)}
    index = build([("t", pa.array(items))], tmp_path / "i")
    found = index.overlap(pa.array(texts))
    assert index.grams == len(known)
    assert found.grams.tolist() == [len(grams(text)) for text in texts]
    assert found.hits.tolist() == [sum(gram in known for gram in grams(text)) for text in texts]


def test_an_index_survives_save_and_open_and_an_empty_one_works(index: GramIndex, tmp_path: Path) -> None:
    again = GramIndex.open(index.path)
    assert (again.sources, again.grams) == (index.sources, index.grams)
    assert shares(again, ITEM) == [1.0]
    empty = build([], tmp_path / "e")
    assert shares(empty, ITEM) == [0.0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e", "i"]


@pytest.mark.parametrize("place", [0, 9, 20, 60, 4096, -1, -200])
def test_a_changed_byte_anywhere_is_refused(index: GramIndex, place: int) -> None:
    content = bytearray(index.path.read_bytes())
    content[place] ^= 1
    index.path.with_name("bad").write_bytes(content)
    with pytest.raises(BadData, match="index of test items"):
        GramIndex.open(index.path.with_name("bad"))


@pytest.mark.parametrize("keep", [0, 5, 100, 4096, 5000])
def test_a_cut_file_is_refused(index: GramIndex, keep: int) -> None:
    index.path.with_name("bad").write_bytes(index.path.read_bytes()[:keep])
    with pytest.raises(BadData, match="index of test items"):
        GramIndex.open(index.path.with_name("bad"))


@given(st.text(st.characters(max_codepoint=127), max_size=200))
def test_words_are_the_same_whether_or_not_anything_beyond_ascii_stands_by(text: str) -> None:
    def grams(given: str) -> list[int]:
        return grams_of(pa.array([given])).tolist()

    assert grams(text) == grams(f"\u2026{text}")


def test_an_index_of_one_s_own_is_as_any_other_but_is_not_taken_for_one(tmp_path: Path) -> None:
    texts = pa.array([" ".join(f"w{at + number}" for at in range(20)) for number in range(50)])
    checked = build([("holdout", texts)], tmp_path / "checked")
    own = build([("holdout", texts)], tmp_path / "own", own=True)
    assert own.overlap(texts).hits.tolist() == checked.overlap(texts).hits.tolist()
    with pytest.raises(BadData):
        GramIndex.open(tmp_path / "own")
