"""ROUGE, BLEU and scores of labels: as from their libraries, and recomputed from each row's parts."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.workers.evals.paired_comparison import compare_parts
from ft_assets.workers.evals.text_columns import text_evidence, text_parts, write_text_columns
from ft_assets.workers.evals.text_metrics import (
    LABELS,
    TEXT_METRICS,
    bleu_counts,
    bleu_score,
    label_of,
    require_labels,
    rouge,
)
from ft_resources.errors import UserError

WORDS = st.lists(st.sampled_from(["the", "cat", "sat", "on", "a", "mat", "."]), max_size=12).map(" ".join)


def columns(targets: list[str], base: list[str], candidate: list[str], *metrics: str) -> dict[str, list[Any]]:
    return write_text_columns(metrics or TEXT_METRICS, targets, {"base": base, "candidate": candidate})


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=8))
def test_corpus_bleu_from_the_rows_counts_is_sacrebleus(pairs: list[tuple[str, str]]) -> None:
    import sacrebleu

    answers, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    ours = float(bleu_score(np.asarray(bleu_counts(answers, targets), float).sum(axis=0)))
    assert 100 * ours == pytest.approx(sacrebleu.corpus_bleu(answers, [targets]).score, abs=1e-6)


@pytest.mark.statistics
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("abcx"), st.sampled_from("abc")), min_size=1, max_size=40
    )
)
def test_scores_of_labels_are_scikit_learns(rows: list[tuple[str, str, str]]) -> None:
    from sklearn.metrics import f1_score, recall_score

    targets, said, other = (list(column) for column in zip(*rows, strict=True))
    found = text_evidence(columns(targets, other, said, *LABELS), seed=0)
    classes = sorted(set(targets))
    settled = {"labels": classes, "average": "macro", "zero_division": 0}
    assert found["accuracy"].candidate == pytest.approx(np.mean(np.array(targets) == np.array(said)))
    assert found["macro_f1"].candidate == pytest.approx(f1_score(targets, said, **settled))
    assert found["balanced_accuracy"].candidate == pytest.approx(recall_score(targets, said, **settled))


def test_rouge_is_lins_on_a_worked_example_and_reads_every_script() -> None:
    # Lin 2004, section 3: the longest common subsequence of S1 and S2 is 3 of 4 words.
    answer, target = "police kill the gunman", "police killed the gunman"
    assert rouge([answer], [target], "rougeL") == [pytest.approx(0.75)]
    assert rouge(["the gunman police killed"], [target], "rougeL") == [pytest.approx(0.5)]
    assert rouge(["the gunman police killed"], [target], "rouge1") == [pytest.approx(1.0)]
    assert rouge(["Кошка спит"], ["кошка спит дома"], "rouge1") == [pytest.approx(0.8)]
    assert rouge([""], [target], "rougeL") == [0.0]


def test_a_gain_on_a_corpus_metric_has_an_interval_by_paired_draws_of_rows() -> None:
    random = np.random.default_rng(0)
    targets = [" ".join(random.choice(["red", "green", "blue", "grey"], 8)) for _ in range(80)]
    noise = [" ".join(random.choice(["red", "green", "blue", "grey"], 8)) for _ in range(80)]
    better = [right if number % 2 else wrong for number, (right, wrong) in enumerate(zip(targets, noise, strict=True))]
    found = text_evidence(columns(targets, noise, better, "bleu"), seed=7)["bleu"]
    assert found.base < found.candidate < 1
    assert 0 < found.interval[0] < found.improvement < found.interval[1]
    assert found == text_evidence(columns(targets, noise, better, "bleu"), seed=7)["bleu"]
    same = text_evidence(columns(targets, noise, noise, "bleu"), seed=7)["bleu"]
    assert (same.improvement, same.interval, same.p_value) == (0.0, (0.0, 0.0), 1.0)


@pytest.mark.statistics
def test_intervals_of_macro_f1_cover_the_true_change_as_often_as_they_say() -> None:
    """A classifier of 70 % against one of 80 %, on 150 rows of three even classes: macro-F1 is then 0.1 apart."""
    random, covered, times = np.random.default_rng(1), 0, 120
    for draw in range(times):
        targets = random.choice(list("abc"), 150)
        base, candidate = (np.where(random.random(150) < right, targets, "x") for right in (0.7, 0.8))
        parts = text_parts(columns(list(targets), list(base), list(candidate), "macro_f1"))["macro_f1"]
        low, high = compare_parts(parts, seed=draw).interval
        # Of a class with recall r and no false alarm, F1 is 2r / (1 + r).
        covered += low <= 2 * 0.8 / 1.8 - 2 * 0.7 / 1.7 <= high
    assert covered >= 0.88 * times


def test_answers_that_are_no_labels_are_refused_with_what_to_do() -> None:
    require_labels(["Yes.", "no"], ["yes", "no", "NO"])
    with pytest.raises(UserError, match="201 different answers, so they are not class labels") as caught:
        require_labels(["a"], [f"answer {number}" for number in range(200)])
    assert "Remove accuracy" in caught.value.remedy
    with pytest.raises(UserError, match="without a letter"):
        require_labels(["?!"], ["a"])
    assert label_of("  **Positive**.\n") == "positive"


@pytest.mark.parametrize(
    ("column", "value"),
    [("base_bleu", [[1, 2]]), ("candidate_bleu", [[-1] * 10]), ("base_rouge1", [1.5]), ("base_rougeL", [float("nan")])],
)
def test_parts_that_no_metric_leaves_are_no_evidence(column: str, value: list[Any]) -> None:
    found = columns(["a cat sat on a mat"], ["a cat"], ["a mat"])
    with pytest.raises(ValueError, match=column):
        text_parts({**found, column: value})
