"""The holdout's own metric of a candidate and of its line's incumbent, on the rows that both have.

With exact match alone, a line with another metric could get worse unnoticed: plain texts have no answers to match,
and summaries are hardly ever equal to the target.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ft_assets.workers.evals.evidence import EXACT_MATCH, PERPLEXITY, PREFERENCE_ACCURACY, MetricEvidence, SuiteEvidence
from ft_assets.workers.evals.paired_comparison import compare_shares
from ft_assets.workers.evals.statistics import studentized
from ft_assets.workers.evals.text_columns import text_evidence
from ft_resources.errors import CorruptArtifact

Columns = Mapping[str, Sequence[Any]]
# The candidate's columns by metric, for metrics that are shares.
_SHARES = {EXACT_MATCH: "candidate_correct", PREFERENCE_ACCURACY: "candidate_prefers_chosen"}
_LIKELIHOOD = "likelihood of a token, the better one's taken as 100 %,"


def pair_share(incumbent: Columns, candidate: Columns, metric: str) -> SuiteEvidence | None:
    """A metric for which more is better, with the incumbent as the base; None unless both have it.

    The columns are those of ``samples/holdout.parquet``, for the same rows in the same order. Raises CorruptArtifact
    for columns that do not match the metric.
    """
    try:
        if metric in _SHARES:
            name = _SHARES[metric]
            if name not in incumbent or name not in candidate:
                return None
            found = compare_shares(*([float(each) for each in side[name]] for side in (incumbent, candidate)), seed=0)
            return _as_suite(metric, found)
        measured = text_evidence(_side_by_side(incumbent, candidate), seed=0).get(metric)
    except (TypeError, ValueError) as error:
        raise _bad(metric) from error
    return _as_suite(metric, measured) if measured else None


def pair_likelihood(incumbent: Columns, candidate: Columns) -> SuiteEvidence:
    """The rise of perplexity, as the relative fall of a token's likelihood; arguments as above.

    A row's likelihood is that of its whole text, per token of the incumbent, so that it is comparable across
    tokenizers. The interval is that of the mean difference in nats, as for perplexity.
    """
    try:
        sizes = np.asarray(incumbent["tokens"], float)
        before, after = (
            np.asarray(side["candidate_nll"], float) * np.asarray(side["tokens"], float)
            for side in (incumbent, candidate)
        )
        nats = studentized(before - after, sizes, seed=0)
        gain = float((before - after).sum() / sizes.sum())
    except (KeyError, TypeError, ValueError) as error:
        raise _bad(PERPLEXITY) from error
    ours, theirs = min(1.0, math.exp(gain)), min(1.0, math.exp(-gain))

    def points(end: float) -> float:
        return 100 * theirs * math.expm1(min(end, 700.0))

    return SuiteEvidence(
        metric=_LIKELIHOOD,
        base=theirs,
        candidate=ours,
        n=len(sizes),
        difference_points=100 * (ours - theirs),
        interval_points=(points(nats.low), points(nats.high)),
    )


def _side_by_side(incumbent: Columns, candidate: Columns) -> dict[str, Sequence[Any]]:
    """Columns of text metrics in the format of one report, with the incumbent as the base."""
    mine = {name: column for name, column in candidate.items() if not name.startswith("base_")}
    theirs = {
        f"base_{name.removeprefix('candidate_')}": column
        for name, column in incumbent.items()
        if name.startswith("candidate_")
    }
    return {**mine, **theirs}


def _as_suite(metric: str, found: MetricEvidence) -> SuiteEvidence:
    low, high = found.interval
    return SuiteEvidence(
        metric=metric,
        base=found.base,
        candidate=found.candidate,
        n=found.n,
        difference_points=100 * (found.candidate - found.base),
        interval_points=(100 * low, 100 * high),
    )


def _bad(metric: str) -> CorruptArtifact:
    return CorruptArtifact(
        f"{metric} cannot be computed from the holdout's samples",
        where="samples/holdout.parquet",
        remedy="Check both reports with ft verify, and materialize a damaged eval_report again.",
    )
