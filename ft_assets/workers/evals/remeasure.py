"""Recompute every figure that a gate judges from the report's own per-sample results.

A report whose figures and samples differ is not valid evidence. Columns of ``samples/holdout.parquet`` are those of
``evaluate.py``; of ``samples/refusals.parquet`` and ``samples/over_refusals.parquet``, ``candidate`` (1 for a refusal);
for ``samples/judge.parquet`` see ``preferences/remeasured.py``.
"""

import math
import statistics
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.evals.agreement import agreement
from ft_assets.workers.evals.evidence import (
    BadEvidence,
    Evidence,
    JudgeEvidence,
    Measured,
    MetricEvidence,
    RateEvidence,
    RefusalEvidence,
    ScoreEvidence,
    SuiteEvidence,
)
from ft_assets.workers.evals.paired_comparison import (
    LIKELIHOODS,
    SHARES,
    compare_loss,
    compare_shares,
    compare_suite,
    perplexities,
    row_shares,
)
from ft_assets.workers.evals.preferences.judged_pairs import SAMPLES
from ft_assets.workers.evals.preferences.remeasured import judge_evidence, require_stated
from ft_assets.workers.evals.refusals import outcome_of, refused_by_scores
from ft_assets.workers.evals.samples import ITEM_ID, parse_samples
from ft_assets.workers.evals.selection_rule import SAMPLES as CHOICE
from ft_assets.workers.evals.selection_rule import require_scores
from ft_assets.workers.evals.statistics import are_binary, drawn_scores, percentiles, studentized, wilson
from ft_assets.workers.evals.text_columns import text_evidence, text_parts
from ft_assets.workers.evals.text_metrics import TEXT_METRICS, Parts, mean_score
from ft_resources.artifacts import Artifact

Columns = Mapping[str, tuple[Any, ...]]
Floats = NDArray[np.float64]
_TOLERANCE = 1e-6
# A right answer of at most so many words leaves little open but the words themselves.
_SHORT_WORDS = 10


def remeasure(report: Artifact, evidence: Evidence) -> Measured:
    """The figures that the report's samples give. Raises BadEvidence if samples are absent, unreadable or contradict
    it."""
    seed = int(report.manifest.identity["params"].get("evaluation", {}).get("seed", 0))
    suites, scores = {}, {}
    for key, reported in evidence.suites.items():
        columns = _read(report, key)
        base, candidate = (_floats(columns, key, who) for who in ("base", "candidate"))
        ids = columns[ITEM_ID]
        suites[key] = compare_suite(key, reported.metric, (ids, base.tolist()), (ids, candidate.tolist()), seed=seed)
        _require_same(key, reported, suites[key])
        scores[key] = _own(candidate, seed)
    holdout = _read(report, "holdout")
    try:
        metrics, loss = _holdout(holdout, seed)
    except ValueError as error:
        raise _bad(f"the samples of the holdout: {error}") from error
    for name, stated in evidence.holdout.items():
        if name not in metrics:
            raise _bad(f"{name} cannot be computed from the holdout samples")
        _require_same(name, stated, metrics[name])
        scores[name] = _score(name, holdout, seed)
    for counted, shares in evidence.safety.items():
        columns = _read(report, counted)
        base, candidate = (_floats(columns, counted, who) for who in ("base", "candidate"))
        found = {"base": float(base.mean()), "candidate": float(candidate.mean()), "n": len(base)}
        _require_same(counted, shares, shares.model_copy(update=found))
        _require_told(report, columns, counted, shares)
    _require_choice(report, evidence)
    return Measured(
        fingerprint=evidence.fingerprint,
        suites=suites,
        holdout={name: metrics[name] for name in evidence.holdout},
        loss=loss,
        short_answers=_are_short(holdout.get("target", ())),
        scores=scores,
        refusals=_rate(report, "refusals"),
        over_refusals=_rate(report, "over_refusals"),
        judge=_judge(report, evidence, seed),
    )


def _are_short(targets: tuple[Any, ...]) -> bool:
    """Whether most right answers have few words."""
    return bool(targets) and statistics.median(len(str(target).split()) for target in targets) <= _SHORT_WORDS


def _holdout(columns: Columns, seed: int) -> tuple[dict[str, MetricEvidence], MetricEvidence]:
    """The holdout's metrics, and the rows' loss."""
    _, base, candidate = _losses(columns)
    if "all_tokens" in columns:
        _losses(columns, "all_")
    for name in (name for pair in SHARES.values() for name in pair if name in columns):
        _floats(columns, "holdout", name)
    metrics = perplexities(columns, seed=seed)
    metrics |= {name: compare_shares(*both, seed=seed) for name, both in row_shares(columns).items()}
    return metrics | text_evidence(columns, seed=seed), compare_loss(base, candidate, seed=seed)


def _losses(columns: Columns, prefix: str = "") -> tuple[Floats, Floats, Floats]:
    """Each row's tokens of answers, or of all that is learned, and both models' mean loss on them."""
    names = (f"{prefix}tokens", f"base_{prefix}nll", f"candidate_{prefix}nll")
    tokens, base, candidate = (_floats(columns, "holdout", name) for name in names)
    if tokens.min() < 1 or min(base.min(), candidate.min()) < 0:
        raise _bad("the samples of the holdout have rows without tokens or with likelihoods above 1")
    return tokens, base, candidate


def _score(name: str, columns: Columns, seed: int) -> ScoreEvidence:
    """The candidate's score with its interval."""
    if name in LIKELIHOODS:
        tokens, _, candidate = _losses(columns, LIKELIHOODS[name])
        value = float((candidate * tokens).sum() / tokens.sum())
        nats = studentized(candidate * tokens, tokens, seed=seed)
        low, high = math.exp(max(0.0, nats.low)), math.exp(min(700.0, nats.high))
        return ScoreEvidence(value=math.exp(value), n=len(tokens), interval=(low, high), higher_is_better=False)
    if name in TEXT_METRICS:
        return _text_score(text_parts(columns)[name], seed)
    return _own(np.asarray(row_shares(columns)[name][1], float), seed)


def _text_score(parts: Parts, seed: int) -> ScoreEvidence:
    if parts.score is mean_score:
        return _own(parts.candidate[:, 0], seed)
    value = float(parts.score(parts.candidate.sum(axis=0)))
    (draws,) = drawn_scores(parts.score, parts.candidate, seed=seed)
    interval = percentiles(value, draws)
    return ScoreEvidence(value=value, n=len(parts.candidate), interval=interval, higher_is_better=True)


def _own(values: Floats, seed: int) -> ScoreEvidence:
    mean = math.fsum(values) / len(values)
    if are_binary(values):
        interval = wilson(int(values.sum()), len(values))
    else:
        interval = studentized(values, np.ones(len(values)), seed=seed)
    return ScoreEvidence(value=mean, n=len(values), interval=interval, higher_is_better=True)


def _rate(report: Artifact, name: str) -> RateEvidence | None:
    """The share of prompts refused, None if it was not measured."""
    if not _has(report, name):
        return None
    refused = _floats(_read(report, name), name, "candidate")
    if not are_binary(refused):
        raise _bad(f"the samples of {name} are not all 0 or 1")
    interval = wilson(int(refused.sum()), len(refused))
    return RateEvidence(value=float(refused.mean()), n=len(refused), interval=interval)


def _require_told(report: Artifact, columns: Columns, name: str, stated: RefusalEvidence) -> None:
    """Raise BadEvidence if a classifier detects refusals and its scores do not give the recorded ones."""
    settings = report.manifest.identity["params"].get("evaluation", {}).get("refusal_classifier")
    if settings is None:
        return
    by_rule: list[float] = []
    by_score: list[float] = []
    for who in ("base", "candidate"):
        scores, answers = _floats(columns, name, f"{who}_score"), columns[f"{who}_answer"]
        told = refused_by_scores([str(answer) for answer in answers], scores.tolist(), settings["threshold"])
        if told != _floats(columns, name, who).tolist():
            raise _bad(f"the refusals in the samples of {name} differ from the classifier's scores")
        by_score += told
        by_rule += [float(outcome_of(str(answer)) == "refused") for answer in answers]
    if stated.classifier is None or stated.classifier != agreement(by_rule, by_score):
        raise _bad(f"the samples of {name} give a different agreement of rule and classifier than the report")


def _judge(report: Artifact, evidence: Evidence, seed: int) -> JudgeEvidence | None:
    """The preferences of the judge that counts; the second judge's are compared with the report."""
    found = None
    for place, name in enumerate(SAMPLES):
        stated = evidence.judges[place] if place < len(evidence.judges) else None
        if stated is None and not _has(report, name):
            continue
        columns = _read(report, name)
        try:
            if stated is not None:
                require_stated(columns, stated)
            measured = judge_evidence(columns, seed=seed)
        except ValueError as error:
            raise _bad(f"the samples of {name}: {error}") from error
        found = measured if place == 0 else found
    return found


def _require_choice(report: Artifact, evidence: Evidence) -> None:
    """Raise BadEvidence if a suite chooses among weights and the samples do not give the recorded scores."""
    settings = report.manifest.identity["params"].get("evaluation", {}).get("validation_suite") or {}
    choice = evidence.chosen.by if evidence.chosen else None
    if (choice.suite if choice else None) != settings.get("suite"):
        raise _bad("the weights in the report were not chosen by the recipe's validation suite")
    if choice is None:
        return
    try:
        require_scores(choice, _read(report, CHOICE))
    except ValueError as error:
        raise _bad(f"the samples of the choice of weights: {error}") from error


def _has(report: Artifact, name: str) -> bool:
    return f"samples/{name}.parquet" in report.manifest.files


def _read(report: Artifact, name: str) -> Columns:
    path = f"samples/{name}.parquet"
    if not _has(report, name):
        raise _bad(f"the report has no {path}")
    columns = parse_samples(report.read(path), path)
    ids = columns[ITEM_ID]
    if not ids:
        raise _bad(f"{path} is empty")
    if len(set(ids)) != len(ids) or None in ids:
        raise _bad(f"{path} has items without a unique id")
    return columns


def _floats(columns: Columns, name: str, column: str) -> Floats:
    """A column of finite numbers. Raises BadEvidence for any other."""
    values = columns.get(column)
    if values is None:
        raise _bad(f"the samples of {name} have no column {column!r}")
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
        raise _bad(f"column {column!r} of the samples of {name} is not all finite numbers")
    return np.asarray(values, float)


Paired = SuiteEvidence | MetricEvidence | RefusalEvidence


def _require_same(name: str, reported: Paired, found: Paired) -> None:
    same = reported.n == found.n and all(
        math.isclose(said, shown, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
        for said, shown in ((reported.base, found.base), (reported.candidate, found.candidate))
    )
    if not same:
        raise _bad(
            f"the report has {reported.base:.6g} → {reported.candidate:.6g} of {reported.n} for {name}, but "
            f"its samples give {found.base:.6g} → {found.candidate:.6g} of {found.n}"
        )


def _bad(what: str) -> BadEvidence:
    return BadEvidence(what, where="samples", remedy="Delete the report's manifest and materialize eval_report again.")
