"""Columns of ``samples/holdout.parquet`` for text metrics: written by the evaluation and read for the gates."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ft_assets.workers.evals.evidence import MetricEvidence
from ft_assets.workers.evals.paired_comparison import compare_parts, compare_shares
from ft_assets.workers.evals.text_metrics import (
    BLEU,
    LABELS,
    ROUGE,
    SCORES,
    TEXT_METRICS,
    Floats,
    Parts,
    bleu_counts,
    label_of,
    label_parts,
    mean_score,
    rouge,
)

Columns = Mapping[str, Sequence[Any]]
BOTH = ("base", "candidate")
_TARGET_LABEL = "target_label"


def write_text_columns(
    metrics: Sequence[str], targets: Sequence[str], answers: Mapping[str, Sequence[str]]
) -> dict[str, list[Any]]:
    """Each row's columns for ``metrics``; ``answers`` are the base's and the candidate's."""
    columns: dict[str, list[Any]] = {}
    for who in BOTH:
        for metric in ROUGE:
            if metric in metrics:
                columns[f"{who}_{metric}"] = rouge(answers[who], targets, metric)
        if BLEU in metrics:
            columns[f"{who}_{BLEU}"] = bleu_counts(answers[who], targets)
        if set(LABELS) & set(metrics):
            columns[_TARGET_LABEL] = [label_of(text) for text in targets]
            columns[f"{who}_label"] = [label_of(text) for text in answers[who]]
    return columns


def text_evidence(columns: Columns, *, seed: int) -> dict[str, MetricEvidence]:
    """Every metric in the columns."""
    return {
        metric: compare_shares(parts.base[:, 0].tolist(), parts.candidate[:, 0].tolist(), seed=seed)
        if parts.score is mean_score
        else compare_parts(parts, seed=seed)
        for metric, parts in text_parts(columns).items()
    }


def text_parts(columns: Columns) -> dict[str, Parts]:
    """The parts of every metric in the columns. Raises ValueError for invalid columns."""
    found = {}
    for metric in TEXT_METRICS:
        needed = (
            ["base_label", "candidate_label", _TARGET_LABEL] if metric in LABELS else [f"{w}_{metric}" for w in BOTH]
        )
        if set(needed) <= set(columns):
            base, candidate = (_parts(metric, who, columns) for who in BOTH)
            found[metric] = Parts(base=base, candidate=candidate, score=SCORES[metric])
    return found


def _parts(metric: str, who: str, columns: Columns) -> Floats:
    if metric in LABELS:
        return label_parts(metric, [str(x) for x in columns[_TARGET_LABEL]], [str(x) for x in columns[f"{who}_label"]])
    values = np.asarray(columns[f"{who}_{metric}"], float)
    if metric in ROUGE:
        values = np.stack([values, np.ones(len(values))], axis=1)
    width = 10 if metric == BLEU else 2
    most = 1.0 if metric in ROUGE else np.inf
    if values.ndim != 2 or values.shape[1] != width or not (np.isfinite(values) & (values >= 0)).all():
        raise ValueError(f"column {who}_{metric} does not have the form that the metric stores per row")
    if values.max() > most:
        raise ValueError(f"column {who}_{metric} has shares above 1")
    return values
