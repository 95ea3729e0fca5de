"""The opt-in step that finds rows which ask what a test item asks, in other words or another language."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.columns import EXAMPLES
from ft_assets.workers.datasets.decisions import ACTIONS, Decisions
from ft_assets.workers.datasets.engine.chunks import open_chunk
from ft_assets.workers.datasets.forms.content_keys import asked_texts
from ft_assets.workers.datasets.forms.reasons import Reason
from ft_assets.workers.datasets.reporting.report import Finding, Place
from ft_assets.workers.datasets.screening.encoding import Encoder
from ft_assets.workers.suites.asked import Asked

_ROWS_AT_ONCE = 2000
_DECIMALS = 4


def find_paraphrases(
    decisions: Decisions, policy: DatasetPolicy, encoder: Encoder, suites: Sequence[tuple[str, Sequence[Asked]]]
) -> None:
    """Report rows whose user turns, or text, are nearer to an item's question than ``threshold``, by suite.

    All windows of a batch's rows are compared with all whole questions by one matrix product.
    """
    settings = policy.contamination.paraphrases
    assert settings is not None
    rows_in = decisions.count
    places = [(suite, at) for suite, (_, items) in enumerate(suites) for at, item in enumerate(items) if item.questions]
    vectors, owners = encoder.encode([suites[suite][1][at].questions[0] for suite, at in places])
    positions, nearest, similarities = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
    for start, chunk, _ in decisions.rows.batches():
        rows = np.flatnonzero(decisions.kept[start : start + chunk.examples])
        for begin in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[begin : begin + _ROWS_AT_ONCE]
            texts = asked_texts(open_chunk(chunk.path).select(EXAMPLES.names).take(pa.array(some)))
            item, similarity = _nearest(encoder, texts.to_pylist(), vectors)
            over = similarity >= settings.threshold
            positions.append(start + some[over])
            nearest.append(owners[item[over]])
            similarities.append(similarity[over])
    found, items, alike = np.concatenate(positions), np.concatenate(nearest), np.concatenate(similarities)
    of_suite = np.array([suite for suite, _ in places], np.int64)[items]
    findings = []
    for number, (suite, asked) in enumerate(suites):
        mine = of_suite == number
        known = [places[item][1] for item in items[mine].tolist()]
        findings.append(_finding(decisions, settings.action, suite, found[mine], alike[mine], known, asked))
    decisions.report("paraphrases", findings, rows_in)


def _finding(
    decisions: Decisions,
    action: str,
    suite: str,
    positions: np.ndarray,
    similarities: np.ndarray,
    known: Sequence[int],
    asked: Sequence[Asked],
) -> Finding:
    """The finding of one suite; ``known`` are the items that the rows are nearest to."""

    def detail(at: int) -> str:
        return f"item {known[at] + 1:,} of {suite}"

    def beside(at: int) -> tuple[Place, str]:
        return Place(file=suite, row=known[at] + 1), asked[known[at]].shown

    return decisions.find(
        "paraphrases",
        Reason.PARAPHRASED,
        ACTIONS[action],
        positions,
        subject=suite,
        similarities=similarities,
        details=detail,
        beside=beside,
    )


def _nearest(encoder: Encoder, texts: list[str], items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each text the nearest of ``items`` (int64), and their cosine similarity; 0 for an empty text."""
    vectors, owners = encoder.encode(texts)
    best, item = np.zeros(len(texts)), np.zeros(len(texts), np.int64)
    if not len(vectors) or not len(items):
        return item, best
    cosines = vectors @ items.T
    top = cosines.argmax(axis=1)
    values = np.round(cosines[np.arange(len(top)), top].astype(np.float64), _DECIMALS)
    # Windows in ascending order of similarity: the last one written for a text is the most similar.
    order = np.argsort(values, kind="stable")
    item[owners[order]], best[owners[order]] = top[order], values[order]
    return item, np.clip(best, 0.0, 1.0)
