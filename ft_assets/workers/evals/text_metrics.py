"""Metrics of whole texts and of labels: the numbers kept per row, and the score computed from them.

Some are not means over rows: BLEU is a ratio of sums over the corpus, macro-F1 a mean over classes. So each row has
additive *parts*, and a score is a function of their sums. With the parts, no library is needed to recompute the score,
or its interval by drawing rows.

metric              parts of a row                                     score of the sums
rouge1, rougeL      the row's F-measure, 1                             their mean (Lin 2004, https://aclanthology.org/W04-1013)
bleu                matching and all 1- to 4-grams, both lengths       corpus BLEU of 0 to 1 (Papineni et al. 2002,
                                                                       https://aclanthology.org/P02-1040), as sacreBLEU
accuracy            right, 1                                           share of rows
balanced_accuracy   by class: right, rows of it                        mean recall of the classes
macro_f1            by class: right, rows of it, said                  mean F1 of the classes
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ft_resources.errors import UserError

Floats = NDArray[np.float64]
Score = Callable[[Floats], Floats]
"""From sums of parts [..., k] to scores [...]."""

ROUGE = ("rouge1", "rougeL")
BLEU = "bleu"
LABELS = ("accuracy", "balanced_accuracy", "macro_f1")
TEXT_METRICS = (*ROUGE, BLEU, *LABELS)
MOST_LABELS = 200
_ORDERS = 4
_AROUND = re.compile(r"^[\s\W_]+|[\s\W_]+$")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, kw_only=True)
class Parts:
    """One metric's parts of the rows: [n, k] for base and candidate, and the score of their sums."""

    base: Floats
    candidate: Floats
    score: Score


class _Words:
    """Lower-case words in any script; rouge-score's own tokenizer drops everything that is not ASCII."""

    def tokenize(self, text: str) -> list[str]:
        return _WORD.findall(text.lower())


def rouge(answers: Sequence[str], targets: Sequence[str], metric: str) -> list[float]:
    """F-measure of each row, by Google's rouge-score without stemming."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer([metric], tokenizer=_Words())
    return [
        float(scorer.score(target, answer)[metric].fmeasure) for answer, target in zip(answers, targets, strict=True)
    ]


def bleu_counts(answers: Sequence[str], targets: Sequence[str]) -> list[list[int]]:
    """For each row: matching n-grams of orders 1 to 4, all of them, the answer's and the target's length; tokens by
    sacreBLEU's 13a."""
    from sacrebleu.metrics import BLEU as Sacre

    metric = Sacre(effective_order=True)
    found = []
    for answer, target in zip(answers, targets, strict=True):
        score = metric.sentence_score(answer, [target])
        found.append([*score.counts, *score.totals, score.sys_len, score.ref_len])
    return found


def label_of(text: str) -> str:
    """An answer as a label: lower case, without white space and punctuation around it."""
    return _AROUND.sub("", text.casefold())


def require_labels(targets: Sequence[str], training: Sequence[str]) -> None:
    """Raise UserError if the answers are not labels: too many different ones, in training or on the holdout."""
    known = {label_of(text) for text in training} | {label_of(text) for text in targets}
    if len(known) > MOST_LABELS or "" in known:
        what = f"{len(known)} different answers" if len(known) > MOST_LABELS else "an answer without a letter or digit"
        raise UserError(
            f"the dataset has {what}, so they are not class labels",
            where="evaluation.holdout.metrics",
            remedy=f"Remove {', '.join(LABELS)}, or use a dataset with at most {MOST_LABELS} different answers.",
        )


def mean_score(sums: Floats) -> Floats:
    """First part divided by second."""
    mean: Floats = sums[..., 0] / sums[..., 1]
    return mean


def bleu_score(sums: Floats) -> Floats:
    """Corpus BLEU from summed counts, with sacreBLEU's default smoothing: each further order without a match counts
    half as much as the one before (method "exp"; Chen & Cherry 2014, https://aclanthology.org/W14-3346, number 3)."""
    matches, totals = sums[..., :_ORDERS], sums[..., _ORDERS : 2 * _ORDERS]
    said, right = sums[..., -2], sums[..., -1]
    halvings = np.cumsum((matches == 0) & (totals > 0), axis=-1)
    smoothed = np.where(matches > 0, matches, 0.5**halvings)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(totals > 0, smoothed / totals, 0.0)
        brevity = np.where(said < right, np.exp(1 - right / np.maximum(said, 1e-300)), 1.0)
        score = brevity * np.exp(np.log(precision).mean(axis=-1))
    # No match at all, or no n-gram of some order, gives 0 and is not smoothed.
    defined = (matches.sum(axis=-1) > 0) & (totals > 0).all(axis=-1)
    return np.where(defined, score, 0.0)


def recall_score(sums: Floats) -> Floats:
    """Mean recall of the classes with rows; a draw without rows of a class averages the others."""
    right, rows = np.split(sums, 2, axis=-1)
    return _class_mean(right, rows, rows)


def f1_score(sums: Floats) -> Floats:
    """Mean F1 of the classes with rows: 2 · right / (rows of it + times answered)."""
    right, rows, said = np.split(sums, 3, axis=-1)
    return _class_mean(2 * right, rows + said, rows)


def _class_mean(above: Floats, below: Floats, rows: Floats) -> Floats:
    there = rows > 0
    mean: Floats = np.where(there, above / np.maximum(below, 1e-300), 0.0).sum(axis=-1) / there.sum(axis=-1)
    return mean


def label_parts(metric: str, targets: Sequence[str], said: Sequence[str]) -> Floats:
    """Parts of each row, [n, k], from labels. Classes are those of ``targets``; any other answer is just wrong."""
    right = np.array([one == other for one, other in zip(targets, said, strict=True)], float)
    if metric == "accuracy":
        return np.stack([right, np.ones(len(right))], axis=1)
    classes = sorted(set(targets))
    rows, named = ((np.asarray(each)[:, None] == np.asarray(classes)[None]).astype(float) for each in (targets, said))
    parts = [rows * right[:, None], rows] + ([named] if metric == "macro_f1" else [])
    return np.concatenate(parts, axis=1)


SCORES: dict[str, Score] = {
    **dict.fromkeys(ROUGE, mean_score),
    BLEU: bleu_score,
    "accuracy": mean_score,
    "balanced_accuracy": recall_score,
    "macro_f1": f1_score,
}
