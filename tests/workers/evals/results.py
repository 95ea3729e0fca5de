"""Results of evaluations, made by hand: evidence as gates read it, and per-sample results as stored."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ft_assets.workers.evals.evidence import Evidence, Measured, MetricEvidence, SuiteEvidence, relative_gain
from ft_assets.workers.evals.paired_comparison import compare_perplexity, compare_shares, compare_suite

SUITE = "colours.v1"
# Of the candidate that is judged, which made evidence names.
FINGERPRINT = "f" * 64
Pair = tuple[list[float], list[float]]


def suite_evidence(base: float = 0.5, candidate: float = 0.5, *, half: float = 1.0, n: int = 1000) -> SuiteEvidence:
    difference = 100 * (candidate - base)
    return SuiteEvidence(
        metric="acc",
        base=base,
        candidate=candidate,
        n=n,
        difference_points=difference,
        interval_points=(difference - half, difference + half),
    )


def metric_evidence(
    base: float = 0.2, candidate: float = 0.4, *, half: float = 0.05, n: int = 400, higher: bool = True
) -> MetricEvidence:
    improvement = candidate - base if higher else base - candidate
    return MetricEvidence(
        higher_is_better=higher,
        base=base,
        candidate=candidate,
        n=n,
        improvement=improvement,
        interval=(improvement - half, improvement + half),
        p_value=0.01,
        relative_gain=relative_gain(base, candidate, higher_is_better=higher),
    )


def _measured() -> dict[str, Any]:
    return {
        "fingerprint": FINGERPRINT,
        "suites": {SUITE: suite_evidence()},
        "holdout": {
            "exact_match": metric_evidence(),
            "perplexity": metric_evidence(20.0, 10.0, half=1.0, higher=False),
        },
    }


def make_measured(**changes: Any) -> Measured:
    """Figures that pass the default gates, with changes."""
    return Measured(**{**_measured(), **changes})


def make_evidence(**changes: Any) -> Evidence:
    """Evidence that passes the default gates, with changes."""
    rows = {"rows": 400, "too_long": 0, "majority_rate": 0.1, "never_seen_rate": 0.0, "never_seen": None}
    return Evidence(**{**_measured(), **rows, **changes})


@dataclass(frozen=True)
class Results:
    """Per-sample results of base and candidate: 0/1 on suites and holdout, mean losses of holdout rows of 5 tokens.

    ``target`` is the right answer of every row, "" for a report without them; ``others`` are further files of samples,
    by name.
    """

    suites: dict[str, Pair]
    correct: Pair
    losses: Pair
    target: str = ""
    others: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def columns(self) -> dict[str, dict[str, list[Any]]]:
        """Columns by file, without item ids."""
        holdout: dict[str, list[Any]] = {
            "tokens": [5] * len(self.losses[0]),
            **{f"{who}_nll": losses for who, losses in zip(("base", "candidate"), self.losses, strict=True)},
            **{f"{who}_correct": right for who, right in zip(("base", "candidate"), self.correct, strict=True)},
            **({"target": [self.target] * len(self.losses[0])} if self.target else {}),
        }
        suites = {key: {"base": pair[0], "candidate": pair[1]} for key, pair in self.suites.items()}
        return {**suites, "holdout": holdout, **self.others}

    def files(self) -> dict[str, bytes]:
        return {f"samples/{name}.parquet": samples_file(columns) for name, columns in self.columns().items()}

    def evidence(self) -> Evidence:
        """The evidence in a report of these results."""
        tokens = [5] * len(self.losses[0])
        sums = [[5 * loss for loss in losses] for losses in self.losses]
        suites = {}
        for key, (base, candidate) in self.suites.items():
            ids = [str(number) for number in range(len(base))]
            suites[key] = compare_suite(key, "acc", (ids, base), (ids, candidate), seed=0)
        return make_evidence(
            suites=suites,
            holdout={
                "exact_match": compare_shares(*self.correct, seed=0),
                "perplexity": compare_perplexity(tokens, *sums, seed=0),
            },
            rows=len(tokens),
        )


def samples_file(columns: Mapping[str, list[Any]]) -> bytes:
    """Samples as Parquet; ids are numbered unless given."""
    count = len(next(iter(columns.values())))
    return parquet_of({"item_id": [str(number) for number in range(count)], **columns})


def parquet_of(columns: Mapping[str, list[Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(dict(columns)), sink)
    return sink.getvalue().to_pybytes()


def flips(base: float, candidate: float, n: int, extra: int = 10) -> Pair:
    """Pairs of 0/1 with these shares, in which ``extra`` items more than needed flip each way."""
    right, gained = round(base * n), round((candidate - base) * n)
    lost, won = extra + max(0, -gained), extra + max(0, gained)
    first = [1.0] * right + [0.0] * (n - right)
    second = [0.0] * lost + [1.0] * (right - lost) + [1.0] * won + [0.0] * (n - right - won)
    return first, second


def losses(n: int, fall: float = 0.5, *, noise: float = 0.3, seed: int = 0) -> Pair:
    """Mean losses around 3 nats per token that fall by ``fall`` on average."""
    random = np.random.default_rng(seed)
    base = random.gamma(30, 0.1, size=n)
    return base.tolist(), np.maximum(0.01, base - fall + random.normal(0, noise, size=n)).tolist()


def make_results(**changes: Any) -> Results:
    """Results that pass the default gates, with changes."""
    values: dict[str, Any] = {
        "suites": {SUITE: flips(0.5, 0.5, 1000)},
        "correct": flips(0.2, 0.4, 400),
        "losses": losses(400),
    }
    return Results(**{**values, **changes})
