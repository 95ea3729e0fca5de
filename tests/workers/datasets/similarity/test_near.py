"""Duplicates: all that are planted are found, nothing is removed for a row that is itself removed."""

import hashlib
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ft_assets.workers.datasets.similarity.minhash import band_hashes
from ft_assets.workers.datasets.similarity.near import Wording, find_duplicates

LETTERS = "abcdefghijklmnopqrstuvwxyz    "


def shingles(text: str) -> set[str]:
    return {text[at : at + 5] for at in range(len(text) - 4)} or ({text} if text else set())


def jaccard(one: str, other: str) -> float:
    both = shingles(one) | shingles(other)
    return len(shingles(one) & shingles(other)) / len(both) if shingles(one) and shingles(other) else 0.0


def write(texts: Sequence[str], folder: Path, files: int = 1, threshold: float = 0.9, rows: int = 1000) -> list[Path]:
    paths = []
    bounds = np.linspace(0, len(texts), files + 1).astype(int)
    for number, (start, end) in enumerate(pairwise(bounds)):
        part = texts[start:end]
        bands = band_hashes(pa.array(part, pa.string()), threshold)
        table = pa.table(
            {
                "content": pa.array([hashlib.sha256(text.encode()).digest() for text in part], pa.binary(32)),
                **{f"band_{band:02d}": pa.array(bands[:, band].copy()) for band in range(bands.shape[1])},
            }
        )
        paths.append(folder / f"{files}-{rows}-{number}.arrow")
        with pa.ipc.new_file(str(paths[-1]), table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)
    return paths


def duplicates(texts: Sequence[str], folder: Path, threshold: float = 0.9, **options: object) -> list[tuple]:
    files, rows = options.pop("files", 1), options.pop("rows", 1000)
    array = pa.array(texts, pa.string())
    paths = write(texts, folder, files, threshold, rows)
    found = find_duplicates(paths, array.take, threshold, folder / "scratch", 500_000_000, **options)
    return [tuple(row.values()) for row in found.duplicates.to_pylist()]


def plant(rows: int, seed: int, pool: int = 0) -> tuple[list[str], dict[int, int]]:
    """Texts of 300 characters, of which a third are edited copies; what each edited one was made of."""
    generator = random.Random(seed)
    texts: list[str] = []
    source: dict[int, int] = {}
    while len(texts) < rows:
        if texts and generator.random() < 0.33:
            made_of = generator.randrange(len(texts))
            text = list(texts[made_of])
            for _ in range(generator.randint(1, 3)):
                text[generator.randrange(len(text))] = generator.choice("XYZ")
            source[len(texts)] = made_of
            texts.append("".join(text))
        else:
            texts.append("".join(generator.choices(LETTERS, k=300)))
    return texts, source


def test_planted_pairs_are_found_and_each_is_a_duplicate_of_a_row_that_stays(tmp_path: Path) -> None:
    texts, source = plant(3000, seed=1)
    found = duplicates(texts, tmp_path)
    gone = {at for at, *_ in found}
    for at, kept, similarity, exact in found:
        assert kept < at
        assert kept not in gone
        assert similarity == pytest.approx(jaccard(texts[at], texts[kept]))
        assert similarity >= 0.9
        assert exact == (texts[at] == texts[kept])
    due = [at for at, made in source.items() if made not in gone and jaccard(texts[at], texts[made]) >= 0.9]
    assert len(due) > 300
    assert sum(at in gone for at in due) >= 0.99 * len(due)


def test_files_batches_threads_and_memory_change_nothing(tmp_path: Path) -> None:
    texts, _ = plant(1500, seed=2)
    texts += texts[:50]
    expected = duplicates(texts, tmp_path)
    assert duplicates(texts, tmp_path, files=7, rows=13, threads=2) == expected
    assert any(exact for *_, exact in expected)


def test_the_first_of_equal_rows_stays_and_copies_follow_it_to_what_it_repeats(tmp_path: Path) -> None:
    text = "A rather long sentence that says the same thing in nearly the same words, again and again, to be sure. " * 4
    near = text[:200] + "?" + text[201:]
    found = duplicates([text, near, "other words entirely, nothing alike", near, text], tmp_path)
    assert [(at, kept, exact) for at, kept, _, exact in found] == [(1, 0, False), (3, 0, True), (4, 0, True)]
    assert found[0][2] == found[1][2] == pytest.approx(jaccard(near, text))


def test_a_chain_of_near_texts_is_cut_where_the_row_before_is_gone_and_linked_where_rows_stay(tmp_path: Path) -> None:
    generator = random.Random(3)
    chain = ["".join(generator.choices(LETTERS, k=400))]
    for step in range(1, 6):
        last = chain[-1]
        chain.append(last[: 60 * step] + "QQQ" + last[60 * step + 3 :])
    assert jaccard(chain[0], chain[1]) >= 0.9 > jaccard(chain[0], chain[5])
    kept = {at: to for at, to, *_ in duplicates(chain, tmp_path)}
    assert all(jaccard(chain[at], chain[to]) >= 0.9 and to not in kept for at, to in kept.items())
    assert 0 < len(kept) < 5
    assert [(at, to) for at, to, *_ in duplicates(chain, tmp_path, linked=True)] == [(at, 0) for at in range(1, 6)]


def test_rows_of_one_template_take_linear_time_and_are_still_compared(tmp_path: Path) -> None:
    # 60 % of each text is the template: the rows share buckets and are not near; every tenth repeats one before it.
    generator = random.Random(4)
    template = "".join(generator.choices(LETTERS, k=300))
    texts = [template + "".join(generator.choices(LETTERS, k=100)) for _ in range(4000)]
    for at in range(10, 4000, 10):
        texts[at] = template + texts[at - 7][300:399] + "Q"
    found = duplicates(texts, tmp_path)
    assert {(at, kept) for at, kept, *_ in found} >= {(at, at - 7) for at in range(10, 40, 10)}
    assert all(jaccard(texts[at], texts[kept]) >= 0.9 for at, kept, *_ in found)


def test_texts_without_a_character_resemble_nothing(tmp_path: Path) -> None:
    texts = ["", "a", "b", "ab", "abcd", "a longer text that is alone here"]
    assert duplicates(texts, tmp_path) == []
    assert [row[:2] for row in duplicates(["", "abc", ""], tmp_path)] == [(2, 0)]


def test_without_a_threshold_only_equal_rows_count(tmp_path: Path) -> None:
    texts, _ = plant(200, seed=5)
    paths = write([*texts, texts[3]], tmp_path)
    found = find_duplicates(paths, lambda at: pytest.fail("no text is needed"), None, tmp_path / "s", 500_000_000)
    assert (200, 3, 1.0, True) in [tuple(row.values()) for row in found.duplicates.to_pylist()]
    assert all(found.duplicates["exact"].to_pylist())
    assert not list((tmp_path / "s").rglob("*.duckdb"))


@pytest.mark.parametrize("threshold", [0.7, 0.8])
def test_lower_thresholds_find_what_they_promise(threshold: float, tmp_path: Path) -> None:
    generator = random.Random(6)
    texts = []
    for _ in range(300):
        text = "".join(generator.choices(LETTERS, k=400))
        cut = round(400 * (1 - threshold) / (1 + threshold)) - 8
        texts += [text, text[cut:] + "".join(generator.choices("QRSTUVW", k=cut))]
    due = [at for at in range(1, 600, 2) if jaccard(texts[at], texts[at - 1]) >= threshold]
    found = {at for at, *_ in duplicates(texts, tmp_path, threshold)}
    assert len(due) > 250
    assert len(found & set(due)) >= 0.99 * len(due)


WORDS = st.text(st.sampled_from("abé文😀"), max_size=14)


@settings(max_examples=10)
@example([("aaaaaab", "abaaaaa")])
@given(st.lists(st.tuples(WORDS, WORDS), min_size=20, max_size=50))
def test_the_reported_similarity_is_exactly_that_of_the_sets_of_shingles(pairs: list[tuple[str, str]]) -> None:
    # Each pair alone in a bucket of its own, and no two rows of equal content: similarity alone decides.
    rows = np.arange(2 * len(pairs))
    table = pa.table(
        {
            "content": pa.array([row.to_bytes(32) for row in rows.tolist()], pa.binary(32)),
            "band_00": pa.array((rows // 2).astype(np.uint64)),
        }
    )
    texts = pa.array([text for pair in pairs for text in pair], pa.string())
    with TemporaryDirectory() as folder:
        with pa.ipc.new_file(f"{folder}/features.arrow", table.schema) as writer:
            writer.write_table(table)
        least = 1e-9
        found = find_duplicates([Path(folder, "features.arrow")], texts.take, least, Path(folder), 500_000_000)
    similarities = {row["at"]: row["similarity"] for row in found.duplicates.to_pylist()}
    expected = {2 * index + 1: jaccard(*pair) for index, pair in enumerate(pairs)}
    assert similarities == {at: similarity for at, similarity in expected.items() if similarity}


def wording(texts: Sequence[str]) -> Wording:
    return Wording.of(np.arange(len(texts)), pa.array(texts, pa.string()).take, 20, 0.005)


def of_subjects(seed: int, count: int) -> list[str]:
    generator = random.Random(seed)
    shared = ["".join(generator.choices(LETTERS, k=250)) for _ in range(3)]
    names = ["".join(generator.choices(LETTERS[:26], k=9)) for _ in range(count)]
    return [f"{shared[0]} {name} {shared[1]} {name} {shared[2]}" for name in names]


def test_the_same_wording_about_other_subjects_is_no_duplicate_and_a_mistyped_copy_of_it_is(tmp_path: Path) -> None:
    texts = of_subjects(8, 200)
    copies = [text[:40] + "#" + text[41:600] + "#" + text[601:] for text in texts[::10]]
    assert min(jaccard(texts[0], other) for other in texts) > 0.9
    assert len(duplicates(texts, tmp_path)) > 150
    found = duplicates([*texts, *copies], tmp_path, wording=wording([*texts, *copies]))
    assert {(at, kept) for at, kept, *_ in found} <= {(200 + number, 10 * number) for number in range(20)}
    assert len(found) >= 18


def test_many_mistyped_copies_of_one_text_are_duplicates_though_they_make_its_wording_common(tmp_path: Path) -> None:
    generator = random.Random(9)
    text = "".join(generator.choices(LETTERS, k=600))
    places = [generator.sample(range(0, 600, 15), 4) for _ in range(100)]
    copies = ["".join("#" if at in each else letter for at, letter in enumerate(text)) for each in places]
    assert len(duplicates([text, *copies], tmp_path, wording=wording([text, *copies]))) == 100


def test_common_wording_changes_nothing_by_files_batches_threads_or_memory(tmp_path: Path) -> None:
    texts = of_subjects(10, 300)
    texts += [text[:100] + "#" + text[101:] for text in texts[::3]]
    expected = duplicates(texts, tmp_path, wording=wording(texts))
    assert len(expected) > 50
    assert duplicates(texts, tmp_path, files=7, rows=13, threads=2, wording=wording(texts)) == expected


PASSAGE = "".join(random.Random(11).choices(LETTERS, k=900))
LONG_ANSWER = "the harbour was closed because the wind had turned during the night, and no ship could leave it"
MIDDLING_ANSWER = "the letter from the governor"


def of_answers(answers: Sequence[tuple[str, str]], folder: Path, **options: object) -> tuple[set[int], set[int]]:
    """Rows with ``PASSAGE``, another question and these two answers each: those removed, and those kept though they
    are near but for the answer."""
    texts = [f"{PASSAGE} {number:02d} {one} {other}" for number, (one, other) in enumerate(answers)]
    ends = [text for at in (0, 1) for text in (pair[at] for pair in answers)]

    def answers_at(positions: np.ndarray) -> pa.Array:
        return pa.array(ends).take(pa.array(np.concatenate([positions, positions + len(answers)])))

    paths = write(texts, folder)
    array = pa.array(texts, pa.string())
    found = find_duplicates(paths, array.take, 0.8, folder / "s", 500_000_000, answers_at=answers_at, **options)
    return set(found.duplicates["at"].to_pylist()), set(found.at.tolist())


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("yes", "yes", True),
        ("yes", "no", False),
        ("cell A", "cell B", False),
        ("increase", "decrease", False),
        (MIDDLING_ANSWER, "the lettr from the governor", True),
        (MIDDLING_ANSWER, "the letter to the governor", False),
        ("the right answer is option A", "the right answer is option B", False),
        ("it happened in 1972 in spring", "it happened in 1973 in spring", False),
        (LONG_ANSWER, LONG_ANSWER.replace("wind", "wjnd").replace("ship", "shop"), True),
        (
            LONG_ANSWER,
            "nobody had paid the men who opened the gates of the harbour, so that they stayed at home",
            False,
        ),
        (LONG_ANSWER, "yes", False),
        ("漢字は難しい", "漢字は易しい", False),
    ],
)
def test_rows_alike_but_for_their_answers_stay_and_mistakes_make_no_other_answer(
    one: str, other: str, same: bool, tmp_path: Path
) -> None:
    assert of_answers([(one, ""), (other, "")], tmp_path) == (({1}, set()) if same else (set(), {1}))


def test_a_choice_the_other_way_round_is_no_duplicate(tmp_path: Path) -> None:
    turned = [(LONG_ANSWER, MIDDLING_ANSWER), (MIDDLING_ANSWER, LONG_ANSWER), (LONG_ANSWER, MIDDLING_ANSWER)]
    assert of_answers(turned, tmp_path) == ({2}, {1})
    # The same turns as a good answer, and as a bad one.
    assert of_answers([(LONG_ANSWER, ""), ("", LONG_ANSWER)], tmp_path) == (set(), {1})


def test_rows_without_an_answer_are_compared_whole(tmp_path: Path) -> None:
    assert of_answers([("", ""), ("yes", ""), ("", "")], tmp_path) == ({1, 2}, set())


def test_where_rows_stay_answers_do_not_part_a_cluster(tmp_path: Path) -> None:
    assert of_answers([("yes", ""), ("no", ""), ("perhaps", "")], tmp_path, linked=True) == ({1, 2}, set())
