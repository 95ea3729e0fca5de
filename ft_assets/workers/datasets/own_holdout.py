"""The step that leaves out training and validation rows which give away the tenant's own holdout."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from ft_assets.workers.datasets.similarity.mistyped import Pieces

# Wording that this many rows of a sample of the holdout share belongs to the prompts and gives nothing away.
_COMMON_SAMPLE = 20_000
_COMMON = 3
_COMMON_SHARE = 0.001
# The same for other rows, which matters if the holdout is small: a leak is not in every two-hundredth row.
_TEMPLATE = 20
_TEMPLATE_SHARE = 0.005
# Only this many rows of the holdout, those with most of the lost rows' text, may be shown beside a row left out.
_COMPARED = 2000
# Pairs whose texts are in memory at a time.
_PAIRS = 4096


def remove_holdout_overlap(
    decisions: Decisions, sides: np.ndarray, policy: DatasetPolicy, scratch: Path, map_chunks: Mapper
) -> None:
    """Leave out training and validation rows that give away the tenant's own holdout: that share most of their
    13-grams with it, or are copies of its rows with so many typing mistakes that they share none."""
    rows_in = decisions.count
    holdout = np.flatnonzero(decisions.kept & (sides == HOLDOUT))
    grams, pieces = scratch / "holdout.grams", scratch / "holdout.pieces"
    _index_holdout(decisions, sides, grams, pieces, map_chunks)
    asked, tasks = [], []
    for start, chunk, _ in decisions.rows.batches():
        end = start + chunk.examples
        rows = np.flatnonzero(decisions.kept[start:end] & (sides[start:end] != HOLDOUT))
        if len(rows):
            asked.append(start)
            tasks.append((chunk.path, rows, str(grams), str(pieces), policy.contamination.threshold))
    none = np.zeros(0, np.int64)
    parts = [(none, np.zeros(0), none, none, np.zeros(0))]
    for start, (rows, share, likely, of, limits) in zip(asked, map_chunks(_overlapping, tasks), strict=True):
        parts.append((start + rows, share, start + likely, holdout[of], limits))
    over, shares, at, of, limits = (np.concatenate(each) for each in zip(*parts, strict=True))
    alike = 1 - np.concatenate([np.zeros(0), *map_chunks(_distances, _pairs(decisions, at, of, limits))])
    copies = alike > 0
    copies[copies] = _typed(decisions, at[copies], of[copies])
    at, of, alike = (each[copies] for each in (at, of, alike))
    positions, order = np.unique(np.concatenate([over, at]), return_index=True)
    finding: Finding = decisions.find(
        "own_holdout",
        Reason.HOLDOUT_OVERLAP,
        "removed",
        positions,
        others=np.concatenate([_given_away(decisions, over, holdout, scratch), of])[order],
        similarities=np.concatenate([shares, alike])[order],
    )
    decisions.report("own_holdout", [finding], rows_in)


def _pairs(
    decisions: Decisions, at: np.ndarray, of: np.ndarray, limits: np.ndarray
) -> Iterator[tuple[pa.Array, pa.Array, np.ndarray]]:
    """The texts of rows (ascending) and of those that they may be copies of, some at a time."""
    for start in range(0, len(at), _PAIRS):
        part = slice(start, start + _PAIRS)
        others, which = np.unique(of[part], return_inverse=True)
        texts = decisions.rows.texts_at(others).take(pa.array(which))
        yield decisions.rows.texts_at(at[part]), texts, limits[part]


def _distances(task: tuple[pa.Array, pa.Array, np.ndarray]) -> np.ndarray:
    """``mistyped.distances`` (runs in any process)."""
    from ft_assets.workers.datasets.similarity.mistyped import distances

    return distances(*task)


def _typed(decisions: Decisions, at: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Which rows (bool) are mistyped copies of the rows ``of`` the holdout; short ones may say something else."""
    from ft_assets.workers.datasets.similarity.mistyped_words import are_short, known_words, typed

    copies, known = np.ones(len(at), np.bool_), None
    for number, (texts, others, _) in enumerate(_pairs(decisions, at, of, np.zeros(len(at)))):
        short = np.flatnonzero(are_short(texts) | are_short(others))
        if len(short):
            known = known_words(_sample(decisions, np.flatnonzero(decisions.kept))) if known is None else known
            copies[number * _PAIRS + short] = typed(texts.take(pa.array(short)), others.take(pa.array(short)), known)
    return copies


def _sample(decisions: Decisions, positions: np.ndarray) -> pa.Array:
    """The texts of some of the rows, chosen by their contents."""
    return decisions.rows.texts_at(positions[lowest(decisions.rows.content_at(positions), _COMMON_SAMPLE)])


def _index_holdout(decisions: Decisions, sides: np.ndarray, grams: Path, pieces: Path, map_chunks: Mapper) -> None:
    from ft_assets.workers.datasets.similarity.mistyped import PieceIndex, common_pieces
    from ft_assets.workers.datasets.similarity.ngrams import GramIndex, common_grams

    rows = decisions.rows
    holdout, others = (np.flatnonzero(decisions.kept & which) for which in (sides == HOLDOUT, sides != HOLDOUT))

    def templates() -> tuple[np.ndarray, np.ndarray]:
        texts = _sample(decisions, others)
        most = max(_TEMPLATE, int(_TEMPLATE_SHARE * len(texts)))
        return common_grams(texts, most), common_pieces(texts, most)

    with ThreadPoolExecutor(1, "common") as beside:
        shared = beside.submit(templates)
        texts = _sample(decisions, holdout)
        common = common_grams(texts, max(_COMMON, int(_COMMON_SHARE * len(texts))))
        of_others, turns_of_phrase = shared.result()
    found = map_chunks(_grams_in_chunk, rows.by_chunk(holdout))
    GramIndex.build((("holdout", each) for each in found), grams, np.union1d(common, of_others), own=True)
    PieceIndex.build(map_chunks(_pieces_in_chunk, rows.by_chunk(holdout)), turns_of_phrase, pieces)


def _grams_in_chunk(task: tuple[str, np.ndarray]) -> np.ndarray:
    """The grams of the given rows of a chunk (runs in any process)."""
    from ft_assets.workers.datasets.similarity.ngrams import grams_of

    return grams_of(_texts_in_chunk(*task))


def _pieces_in_chunk(task: tuple[str, np.ndarray]) -> "Pieces":
    """The pieces of the given rows of a chunk (runs in any process)."""
    from ft_assets.workers.datasets.similarity.mistyped import Pieces

    return Pieces.of(_texts_in_chunk(*task))


def _texts_in_chunk(path: str, rows: np.ndarray) -> pa.Array:
    return flat_texts(open_chunk(path).select(EXAMPLES.names).take(pa.array(rows)))


def _overlapping(
    task: tuple[str, np.ndarray, str, str, float],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Which of the given rows of a chunk overlap with an index and how much; which others may be mistyped copies, of
    which rows of the holdout, and up to which distance (runs in any process)."""
    from ft_assets.workers.datasets.similarity.mistyped import PieceIndex

    path, rows, grams, pieces, threshold = task
    # Nearly all rows: only their texts are read, as the rows have many columns.
    texts = flat_texts(open_chunk(path)).take(pa.array(rows))
    overlap = open_index(grams, own=True).overlap(texts)
    over = overlap.hits > threshold * overlap.grams
    likeliest, limits = PieceIndex(Path(pieces)).likeliest(texts)
    likely = np.flatnonzero(~over & (likeliest >= 0))
    shares = overlap.hits[over] / overlap.grams[over]
    return rows[over], shares, rows[likely], likeliest[likely], limits[likely]


def _given_away(decisions: Decisions, positions: np.ndarray, holdout: np.ndarray, scratch: Path) -> np.ndarray:
    """For each row that the report lists, the row of the holdout that shares most 13-grams with it (-1: none). Common
    grams count here, as this only chooses what is shown."""
    others = np.full(len(positions), -1)
    listed = positions[:LISTED_NOTES]
    if not len(listed):
        return others
    from ft_assets.workers.datasets.similarity.ngrams import GramIndex, grams_of

    rows = decisions.rows
    each_has = [np.unique(grams_of(rows.texts_at(np.array([position])))) for position in listed.tolist()]
    grams, owners = np.concatenate(each_has), np.repeat(np.arange(len(listed)), [len(each) for each in each_has])
    index = GramIndex.build([("listed", grams)], scratch / "listed.grams", own=True)
    texts = (flat_texts(open_chunk(path)).take(pa.array(places)) for path, places in rows.by_chunk(holdout))
    hits = np.concatenate([index.overlap(each).hits.astype(np.int64) for each in texts])
    best = np.zeros(len(listed), np.int64)
    for position in np.sort(holdout[np.argsort(-hits, kind="stable")[:_COMPARED]]).tolist():
        theirs = grams_of(rows.texts_at(np.array([position])))
        shared = np.bincount(owners[np.isin(grams, theirs)], minlength=len(listed))
        others[: len(listed)][shared > best] = position
        best = np.maximum(best, shared)
    return others
