"""Evidence from both models' results on each item: paired differences, intervals and tests."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.evals.answers import TrainingAnswers, exact_match, f1
from ft_assets.workers.evals.evidence import (
    EXACT_MATCH,
    F1,
    PERPLEXITY,
    PERPLEXITY_ALL,
    PREFERENCE_ACCURACY,
    MetricEvidence,
    NeverSeen,
    SuiteEvidence,
    relative_gain,
)
from ft_assets.workers.evals.holdout import HoldoutScore
from ft_assets.workers.evals.holdout_rows import HoldoutRow
from ft_assets.workers.evals.statistics import (
    are_binary,
    contingency,
    drawn_scores,
    mcnemar_exact,
    paired_interval,
    percentiles,
    sign_flip_p,
    studentized,
)
from ft_assets.workers.evals.text_metrics import Parts
from ft_resources.errors import UserError

Floats = NDArray[np.float64]
# Shares on the holdout with a column for each model, by metric.
SHARES: dict[str, tuple[str, str]] = {
    PREFERENCE_ACCURACY: ("base_prefers_chosen", "candidate_prefers_chosen"),
    EXACT_MATCH: ("base_correct", "candidate_correct"),
}
# Beginnings of the columns' names, by metric.
LIKELIHOODS = {PERPLEXITY: "", PERPLEXITY_ALL: "all_"}
# exp() of more is infinite. Nats per token; guessing among a million tokens is 14.
_MOST_NATS = 700.0


@dataclass(frozen=True, kw_only=True)
class HoldoutComparison:
    """Both models' results on the same holdout rows, in the rows' order."""

    rows: Sequence[HoldoutRow]
    base: Sequence[HoldoutScore]
    candidate: Sequence[HoldoutScore]

    def columns(self) -> dict[str, list[Any]]:
        """One value for each row; likelihoods are means in nats per token. Answers only if some were asked for, and
        rejected ones only for pairs."""
        both = (("base", self.base), ("candidate", self.candidate))
        columns: dict[str, list[Any]] = {"kind": [row.kind for row in self.rows]}
        if self.asked:
            columns["target"] = [row.target for row in self.rows]
        columns["tokens"] = [score.tokens for score in self.base]
        columns |= {f"{who}_nll": [score.nll_sum / score.tokens for score in scores] for who, scores in both}
        if self.wrapped:
            columns["all_tokens"] = [score.all_tokens for score in self.base]
            columns |= {
                f"{who}_all_nll": [each.all_nll_sum / each.all_tokens for each in scores] for who, scores in both
            }
        if self.asked:
            columns |= {f"{who}_answer": [score.answer for score in scores] for who, scores in both}
            columns |= {f"{who}_correct": [bool(match) for match in self.matches(scores)] for who, scores in both}
            columns |= {f"{who}_cut": [score.cut for score in scores] for who, scores in both}
        if self.paired:
            columns["rejected_tokens"] = [score.rejected_tokens for score in self.base]
            for who, scores in both:
                columns[f"{who}_rejected_nll"] = [score.rejected_nll_sum / score.rejected_tokens for score in scores]
                columns[f"{who}_prefers_chosen"] = [score.prefers_chosen for score in scores]
        return columns

    def metrics(self, *, seed: int) -> dict[str, MetricEvidence]:
        """Perplexity of the answers, and of all that is learned if that is more; if answers were asked for, exact match
        and F1; for pairs, preference accuracy."""
        columns = self.columns()
        shares = {name: compare_shares(*both, seed=seed) for name, both in row_shares(columns).items()}
        return perplexities(columns, seed=seed) | shares

    @property
    def wrapped(self) -> bool:
        """Whether training learns more than the rows' answers: thoughts, or what the template puts around answers."""
        return any(score.all_tokens != score.tokens for score in self.base)

    @property
    def asked(self) -> bool:
        """Whether the rows ask for answers; plain texts do not."""
        return any(row.prompt for row in self.rows)

    @property
    def paired(self) -> bool:
        """Whether the rows are pairs of a chosen and a rejected answer."""
        return all(row.rejected for row in self.rows)

    def matches(self, scores: Sequence[HoldoutScore]) -> list[float]:
        """Exact match of each row."""
        return [exact_match(score.answer, row.target) for score, row in zip(scores, self.rows, strict=True)]

    def majority_rate(self, training: TrainingAnswers) -> float:
        """Exact match of always giving the most common training answer to rows of that kind; 0 without answers."""
        return _share([training.commonest(row.kind) == row.target for row in self.rows])

    def never_seen(self, training: TrainingAnswers) -> tuple[float, NeverSeen | None]:
        """The share of rows whose answer is not a training answer, and exact match on these."""
        if not self.asked:
            return 0.0, None
        unseen = [not training.seen(row.target) for row in self.rows]
        if not any(unseen):
            return 0.0, None
        base, candidate = self.matches(self.base), self.matches(self.candidate)
        return _share(unseen), NeverSeen(
            n=sum(unseen),
            base=_share([match for match, new in zip(base, unseen, strict=True) if new]),
            candidate=_share([match for match, new in zip(candidate, unseen, strict=True) if new]),
        )


def perplexities(columns: Mapping[str, Sequence[Any]], *, seed: int) -> dict[str, MetricEvidence]:
    """The comparisons of perplexity that a holdout's samples give, by metric."""
    found = {}
    for name, prefix in LIKELIHOODS.items():
        if f"{prefix}tokens" in columns:
            tokens = np.asarray(columns[f"{prefix}tokens"], float)
            base, candidate = (np.asarray(columns[f"{who}_{prefix}nll"], float) for who in ("base", "candidate"))
            found[name] = compare_perplexity(tokens, base * tokens, candidate * tokens, seed=seed)
    return found


def row_shares(columns: Mapping[str, Sequence[Any]]) -> dict[str, tuple[list[float], list[float]]]:
    """Base's and candidate's score on each row of a holdout's samples, by metric."""
    found = {
        name: ([float(value) for value in columns[base]], [float(value) for value in columns[candidate]])
        for name, (base, candidate) in SHARES.items()
        if base in columns and candidate in columns
    }
    if "target" in columns and "base_answer" in columns:
        base, candidate = (
            [f1(str(answer), str(target)) for answer, target in zip(columns[who], columns["target"], strict=True)]
            for who in ("base_answer", "candidate_answer")
        )
        found[F1] = base, candidate
    return found


def compare_suite(
    key: str,
    metric: str,
    base: tuple[Sequence[str], Sequence[float]],
    candidate: tuple[Sequence[str], Sequence[float]],
    *,
    seed: int,
) -> SuiteEvidence:
    """A suite's evidence from both models' item ids and scores. Raises UserError if the items differ."""
    if list(base[0]) != list(candidate[0]):
        raise UserError(
            f"the baseline ({len(base[0])} items) and the candidate ({len(candidate[0])} items) were scored "
            "on different items",
            where=f"suite {key}",
            remedy="Materialize baseline_report for this recipe again, then eval_report.",
        )
    before, after = np.asarray(base[1], float), np.asarray(candidate[1], float)
    interval = paired_interval(before, after, seed=seed)
    base_score, candidate_score = _share(base[1]), _share(candidate[1])
    return SuiteEvidence(
        metric=metric,
        base=base_score,
        candidate=candidate_score,
        n=len(before),
        difference_points=100 * (candidate_score - base_score),
        interval_points=(100 * interval.low, 100 * interval.high),
    )


def compare_perplexity(
    tokens: Sequence[int] | Floats, base: Sequence[float] | Floats, candidate: Sequence[float] | Floats, *, seed: int
) -> MetricEvidence:
    """Perplexity over all tokens: exp(summed negative log-likelihood / tokens), as usually published.

    The interval is that of the mean difference in nats per token, scaled to the base's perplexity: log-perplexities are
    means of paired losses, perplexities are not. Raises UserError for likelihoods without a finite perplexity.
    """
    sizes, before, after = (np.asarray(each, float) for each in (tokens, base, candidate))
    for whose, sums in (("base", before), ("candidate", after)):
        if not np.isfinite(sums).all() or (sums / sizes).max() > _MOST_NATS:
            raise UserError(
                f"the {whose}'s likelihood of an answer gives no finite perplexity",
                where="holdout",
                remedy="Choose another base."
                if whose == "base"
                else "The candidate's weights have probably diverged: lower the learning rate.",
            )
    perplexity = math.exp(before.sum() / sizes.sum())
    nats = studentized(before - after, sizes, seed=seed)
    low, high = (perplexity * -math.expm1(-max(end, -_MOST_NATS)) for end in (nats.low, nats.high))
    return _evidence(
        perplexity,
        math.exp(after.sum() / sizes.sum()),
        higher_is_better=False,
        n=len(sizes),
        interval=(low, high),
        p_value=sign_flip_p(before - after, seed=seed),
    )


def compare_loss(base: Sequence[float] | Floats, candidate: Sequence[float] | Floats, *, seed: int) -> MetricEvidence:
    """Mean of the rows' own losses (nats per token), with equal weight for each row; paired."""
    before, after = np.asarray(base, float), np.asarray(candidate, float)
    interval = studentized(before - after, np.ones(len(before)), seed=seed)
    return _evidence(
        float(before.mean()),
        float(after.mean()),
        higher_is_better=False,
        n=len(before),
        interval=interval,
        p_value=sign_flip_p(before - after, seed=seed),
    )


def compare_shares(base: Sequence[float], candidate: Sequence[float], *, seed: int) -> MetricEvidence:
    """Means of scores between 0 and 1, paired by row; higher is better."""
    before, after = np.asarray(base, float), np.asarray(candidate, float)
    interval = paired_interval(before, after, seed=seed)
    if are_binary(before, after):
        _, only_base, only_candidate, _ = contingency(before, after)
        p_value = mcnemar_exact(only_base, only_candidate)
    else:
        p_value = sign_flip_p(after - before, seed=seed)
    return _evidence(
        _share(base),
        _share(candidate),
        higher_is_better=True,
        n=len(base),
        interval=interval,
        p_value=p_value,
    )


def compare_parts(parts: Parts, *, seed: int) -> MetricEvidence:
    """A metric that is a function of sums over rows; higher is better.

    The interval is that of a paired bootstrap over rows (Koehn 2004, https://aclanthology.org/W04-3250), and so is the
    p-value: twice the share of draws on the other side of no change.
    """
    base, candidate = (float(parts.score(each.sum(axis=0))) for each in (parts.base, parts.candidate))
    before, after = drawn_scores(parts.score, parts.base, parts.candidate, seed=seed)
    change = after - before
    interval = percentiles(candidate - base, change)
    beyond = (change <= 0) if candidate > base else (change >= 0)
    return _evidence(
        base,
        candidate,
        higher_is_better=True,
        n=len(parts.base),
        interval=interval,
        p_value=min(1.0, 2 * (int(beyond.sum()) + 1) / (len(change) + 1)),
    )


def _evidence(
    base: float,
    candidate: float,
    *,
    higher_is_better: bool,
    n: int,
    interval: tuple[float, float],
    p_value: float,
) -> MetricEvidence:
    return MetricEvidence(
        higher_is_better=higher_is_better,
        base=base,
        candidate=candidate,
        n=n,
        improvement=candidate - base if higher_is_better else base - candidate,
        interval=interval,
        p_value=p_value,
        relative_gain=relative_gain(base, candidate, higher_is_better=higher_is_better),
    )


def _share(values: Sequence[float] | Sequence[bool]) -> float:
    return math.fsum(values) / len(values)
