"""Copies with typing mistakes are told from other texts, in any script; what texts share in wording tells nothing."""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.near_copies import mistyped
from ft_assets.workers.datasets.similarity.folded import bare_texts
from ft_assets.workers.datasets.similarity.mistyped import Letters, PieceIndex, Pieces, common_pieces, distances

NOTHING = np.zeros(0, np.uint64)


def texts(*seeds: object, alphabet: str = "abcdefghijklmnopqrstuvwxyz", words: int = 30) -> list[str]:
    """A text of made-up words for each seed."""
    draws = [random.Random(f"mistyped {seed}") for seed in seeds]
    return [" ".join("".join(draw.choices(alphabet, k=draw.randint(2, 8))) for _ in range(words)) for draw in draws]


def copied(index: PieceIndex, known: Sequence[str], asked: Sequence[str]) -> list[int]:
    """For each text the known one that it is a mistyped copy of, -1 for none."""
    likeliest, limits = index.likeliest(pa.array(asked))
    others = pa.array([known[at] for at in likeliest])
    return np.where(distances(pa.array(asked), others, limits) < 1, likeliest, -1).tolist()


def right(found: Sequence[int]) -> int:
    """How many of the copies, in the order of the known texts, are found; none may be taken for another text's."""
    assert all(at in (-1, number) for number, at in enumerate(found))
    return sum(at >= 0 for at in found)


def levenshtein(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for line, letter in enumerate(one, 1):
        row, before = [line], row
        for column, theirs in enumerate(other, 1):
            row.append(min(before[column] + 1, row[-1] + 1, before[column - 1] + (letter != theirs)))
    return row[-1]


@pytest.mark.parametrize(
    "alphabet", ["abcdefghijklmnopqrstuvwxyz", "бвгджзклмнптфцчшщыэюя", "漢字語文学校生先大小中国日本人山川"]
)
def test_copies_with_a_tenth_of_their_letters_mistyped_are_found_and_nothing_else(
    alphabet: str, tmp_path: Path
) -> None:
    known, others = texts(*range(100), alphabet=alphabet), texts(*range(100, 300), alphabet=alphabet)
    index = PieceIndex.build([Pieces.of(pa.array(part)) for part in (known[:30], known[30:])], NOTHING, tmp_path / "i")
    draw = random.Random(alphabet)
    found = copied(index, known, [mistyped(draw, text, 0.1) for text in known])
    assert right(found) >= 97
    assert copied(index, known, others) == [-1] * 200


def test_the_same_wording_about_another_subject_is_no_copy(tmp_path: Path) -> None:
    (wording,), subjects = texts("wording", words=40), texts(*range(400), words=8)
    rows = [f"{wording} {subject}" for subject in subjects]
    common = common_pieces(pa.array(rows[100:]), 20)
    index = PieceIndex.build([Pieces.of(pa.array(rows[:100]))], common, tmp_path / "i")
    assert copied(index, rows, rows[100:]) == [-1] * 300
    draw = random.Random(1)
    assert right(copied(index, rows, [mistyped(draw, text, 0.03) for text in rows[:100]])) >= 80


def test_texts_of_a_few_letters_and_an_empty_index_find_nothing(tmp_path: Path) -> None:
    short = texts(*range(20), words=2)
    index = PieceIndex.build([Pieces.of(pa.array(short))], NOTHING, tmp_path / "i")
    assert copied(index, short, short) == [-1] * 20
    empty = PieceIndex.build([], NOTHING, tmp_path / "e")
    assert empty.likeliest(pa.array(["", *texts(1)]))[0].tolist() == [-1, -1]


def test_a_large_index_looks_at_fewer_pieces_and_still_finds_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ft_assets.workers.datasets.similarity.mistyped._MOST_PIECES", 1000)
    known, draw = texts(*range(50)), random.Random(2)
    index = PieceIndex.build([Pieces.of(pa.array(known))], NOTHING, tmp_path / "i")
    found = copied(index, known, [mistyped(draw, text, 0.05) for text in known])
    assert right(found) >= 48


@given(st.lists(st.tuples(st.text("ab漢 п😀", max_size=30), st.text("ab漢 п😀", max_size=30)), max_size=4))
def test_distances_are_levenshteins_up_to_their_limit(pairs: list[tuple[str, str]]) -> None:
    some, others = (pa.array([pair[side] for pair in pairs], pa.large_string()) for side in (0, 1))
    found = distances(some, others, np.full(len(pairs), 0.5))
    bare = zip(bare_texts(some).to_pylist(), bare_texts(others).to_pylist(), strict=True)
    for distance, (one, other) in zip(found.tolist(), bare, strict=True):
        longest = max(len(one), len(other), 1)
        edits = levenshtein(one, other)
        assert distance == (pytest.approx(edits / longest) if edits <= int(0.5 * longest) else 1)


@given(st.lists(st.text(max_size=20), max_size=5))
def test_letters_are_code_points(given_texts: list[str]) -> None:
    array = pa.array(given_texts, pa.large_string())
    letters = Letters.of(array)
    spans = zip(letters.starts, letters.starts[1:], strict=False)
    assert ["".join(map(chr, letters.codes[start:end])) for start, end in spans] == bare_texts(array).to_pylist()
