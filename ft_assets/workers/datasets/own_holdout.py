"""The step that leaves out training and validation rows which give away the tenant's own holdout."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa

from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.columns import EXAMPLES
from ft_assets.workers.datasets.decisions import Decisions
from ft_assets.workers.datasets.engine.chunks import open_chunk
from ft_assets.workers.datasets.engine.local import Mapper
from ft_assets.workers.datasets.engine.prepare import open_index
from ft_assets.workers.datasets.forms.content_keys import flat_texts
from ft_assets.workers.datasets.forms.reasons import Reason
from ft_assets.workers.datasets.quality.draw import lowest
from ft_assets.workers.datasets.reporting.report import LISTED_NOTES, Finding
from ft_assets.workers.datasets.split import HOLDOUT

# Wording that this many rows of a sample of the holdout share belongs to the prompts and gives nothing away.
_COMMON_SAMPLE = 20_000
_COMMON = 3
_COMMON_SHARE = 0.001
# The same for other rows, which matters if the holdout is small: a leak is not in every two-hundredth row.
_TEMPLATE = 20
_TEMPLATE_SHARE = 0.005
# Rows of the holdout that a row left out may be shown beside: those that have most of all such rows' text.
_COMPARED = 2000


def remove_holdout_overlap(
    decisions: Decisions, sides: np.ndarray, policy: DatasetPolicy, scratch: Path, map_chunks: Mapper
) -> None:
    """Leave out training and validation rows that give away the tenant's own holdout."""
    rows_in = decisions.count
    index = scratch / "holdout.grams"
    _index_holdout(decisions, sides, index, map_chunks)
    asked, tasks = [], []
    for start, chunk, _ in decisions.rows.batches():
        end = start + chunk.examples
        rows = np.flatnonzero(decisions.kept[start:end] & (sides[start:end] != HOLDOUT))
        if len(rows):
            asked.append(start)
            tasks.append((chunk.path, rows, str(index), policy.contamination.threshold))
    found, shares = [np.zeros(0, np.int64)], [np.zeros(0)]
    for start, (rows, share) in zip(asked, map_chunks(_overlapping, tasks), strict=True):
        found.append(start + rows)
        shares.append(share)
    positions = np.concatenate(found)
    holdout = np.flatnonzero(decisions.kept & (sides == HOLDOUT))
    finding: Finding = decisions.find(
        "own_holdout",
        Reason.HOLDOUT_OVERLAP,
        "removed",
        positions,
        others=_given_away(decisions, positions, holdout, scratch),
        similarities=np.concatenate(shares),
    )
    decisions.report("own_holdout", [finding], rows_in)


def _index_holdout(decisions: Decisions, sides: np.ndarray, path: Path, map_chunks: Mapper) -> None:
    from ft_assets.workers.datasets.similarity.ngrams import GramIndex, common_grams

    rows = decisions.rows
    holdout, others = (np.flatnonzero(decisions.kept & which) for which in (sides == HOLDOUT, sides != HOLDOUT))

    def common_of(positions: np.ndarray, least: int, share: float) -> np.ndarray:
        sample = positions[lowest(rows.content_at(positions), _COMMON_SAMPLE)]
        return common_grams(rows.texts_at(sample), max(least, int(share * len(sample))))

    with ThreadPoolExecutor(1, "common") as beside:
        templates = beside.submit(common_of, others, _TEMPLATE, _TEMPLATE_SHARE)
        common = np.union1d(common_of(holdout, _COMMON, _COMMON_SHARE), templates.result())
    grams = map_chunks(_grams_in_chunk, rows.by_chunk(holdout))
    GramIndex.build_of_grams((("holdout", each) for each in grams), path, common, own=True)


def _grams_in_chunk(task: tuple[str, np.ndarray]) -> np.ndarray:
    """The grams of the given rows of a chunk (runs in any process)."""
    from ft_assets.workers.datasets.similarity.ngrams import grams_of

    path, rows = task
    return grams_of(flat_texts(open_chunk(path).select(EXAMPLES.names).take(pa.array(rows))))


def _overlapping(task: tuple[str, np.ndarray, str, float]) -> tuple[np.ndarray, np.ndarray]:
    """Which of the given rows of a chunk overlap with an index, and how much (runs in any process)."""
    path, rows, index, threshold = task
    # Nearly all rows: only their texts are read, as the rows have many columns.
    overlap = open_index(index, own=True).overlap(flat_texts(open_chunk(path)).take(pa.array(rows)))
    over = np.flatnonzero(overlap.hits > threshold * overlap.grams)
    return rows[over], overlap.hits[over] / overlap.grams[over]


def _given_away(decisions: Decisions, positions: np.ndarray, holdout: np.ndarray, scratch: Path) -> np.ndarray:
    """For each of the rows that the report lists, the row of the holdout that shares most 13-grams with it (-1: none).
    The counts are of all grams, common ones included, as they only choose what is shown."""
    others = np.full(len(positions), -1)
    listed = positions[:LISTED_NOTES]
    if not len(listed):
        return others
    from ft_assets.workers.datasets.similarity.ngrams import GramIndex, grams_of

    rows = decisions.rows
    each_has = [np.unique(grams_of(rows.texts_at(np.array([position])))) for position in listed.tolist()]
    grams, owners = np.concatenate(each_has), np.repeat(np.arange(len(listed)), [len(each) for each in each_has])
    index = GramIndex.build_of_grams([("listed", grams)], scratch / "listed.grams", own=True)
    texts = (flat_texts(open_chunk(path)).take(pa.array(places)) for path, places in rows.by_chunk(holdout))
    hits = np.concatenate([index.overlap(each).hits.astype(np.int64) for each in texts])
    best = np.zeros(len(listed), np.int64)
    for position in np.sort(holdout[np.argsort(-hits, kind="stable")[:_COMPARED]]).tolist():
        theirs = grams_of(rows.texts_at(np.array([position])))
        shared = np.bincount(owners[np.isin(grams, theirs)], minlength=len(listed))
        others[: len(listed)][shared > best] = position
        best = np.maximum(best, shared)
    return others
