"""The rows of a curated version that are nearest to a text, by datasketch's LSH over their signatures."""

import heapq
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasketch import LeanMinHash, MinHashLSH

from ft_assets.workers.datasets.columns import TURN_COLUMNS
from ft_assets.workers.datasets.forms.content_keys import flat_texts
from ft_assets.workers.datasets.forms.reasons import RowProblem
from ft_assets.workers.datasets.forms.texts import clean
from ft_assets.workers.datasets.looks import NearRow
from ft_assets.workers.datasets.similarity.folded import bare_texts
from ft_assets.workers.datasets.similarity.hashing import PERMUTATIONS, SHINGLE
from ft_assets.workers.datasets.similarity.minhash import SCHEME, SEED, signatures
from ft_resources.errors import UserError

LEAST_THRESHOLD = 0.2
_RECALL = 0.999
_BATCH = 8192
_COLUMNS = ["id", *TURN_COLUMNS, "text", "tools"]


def lean_minhashes(texts: pa.Array | pa.ChunkedArray) -> list[LeanMinHash]:
    """The signature of each text, as a datasketch object: to compare, to put into an index, or to serialize."""
    return [_lean(values) for values in signatures(texts)]


def nearest_rows(files: Mapping[str, Path], text: str, *, threshold: float, most: int) -> list[NearRow]:
    """The ``most`` rows at least ``threshold`` (0.2 to 1) similar to ``text``, the nearest first.

    A row is missed with a probability of 0.001 at the threshold, and of less above it. Rows are read and asked in
    batches, so memory does not grow with the version.

    Args:
        files: Parquet files by split.

    Raises UserError for another threshold, and for a text without letters or digits, which nothing is near to.
    """
    if not LEAST_THRESHOLD <= threshold <= 1:
        what = f"the threshold should be from {LEAST_THRESHOLD} to 1, not {threshold:g}"
        raise UserError(what, where="threshold", remedy="Try 0.5; two rows that differ in a word have 0.9 and more.")
    try:
        folded = bare_texts(pa.array([clean(text)]))
    except RowProblem as error:
        raise UserError(error.problem, where="text", remedy="No row has such a text.") from None
    wanted = _shingles(folded[0].as_py())
    if not wanted:
        raise UserError("the text has no letters and no digits", where="text", remedy="Give the text of a row.")
    (mine,) = lean_minhashes(folded)
    bands, rows = banding_for(threshold)
    # The index holds the one text, and every row queries it: which pairs share a band does not depend on the side.
    index = MinHashLSH(num_perm=PERMUTATIONS, params=(bands, rows))
    index.insert("text", mine)
    # At the threshold, one row in 30,000 has fewer equal values (four standard deviations). Most rows have far fewer,
    # and need no datasketch object.
    fewest = max(rows, int(PERMUTATIONS * threshold - 4 * math.sqrt(PERMUTATIONS * threshold * (1 - threshold))))

    def found() -> Iterator[NearRow]:
        for split, batch in _batches(files):
            texts = flat_texts(batch)
            bare = bare_texts(texts)
            values = signatures(bare)
            for row in np.flatnonzero((values == mine.hashvalues).sum(axis=1) >= fewest).tolist():
                other = _lean(values[row])
                if not index.query(other):
                    continue
                theirs = _shingles(bare[row].as_py())
                shared = len(wanted & theirs)
                similarity = shared / (len(wanted) + len(theirs) - shared)
                if similarity >= threshold:
                    yield NearRow(
                        similarity=similarity,
                        estimate=float(mine.jaccard(other)),
                        id=batch.column("id")[row].as_py(),
                        split=split,
                        text=texts[row].as_py(),
                    )

    return heapq.nsmallest(most, found(), key=lambda near: (-near.similarity, near.id))


def banding_for(threshold: float) -> tuple[int, int]:
    """(bands, rows of each): the longest bands of which two texts at ``threshold`` share one with probability 0.999.

    datasketch's own choice balances misses against candidates, and finds 0.31 of the pairs at 0.9.
    """
    for rows in range(PERMUTATIONS // 2, 1, -1):
        bands = PERMUTATIONS // rows
        if 1 - (1 - threshold**rows) ** bands >= _RECALL:
            return bands, rows
    return PERMUTATIONS, 1


def _lean(values: np.ndarray) -> LeanMinHash:
    return LeanMinHash(seed=SEED, hashvalues=values, scheme=SCHEME)


def _shingles(text: str) -> set[str]:
    """The shingles of the signatures: a text of 1 to 4 characters is one shingle, "" has none."""
    return {text[at : at + SHINGLE] for at in range(max(len(text) - SHINGLE + 1, min(len(text), 1)))}


def _batches(files: Mapping[str, Path]) -> Iterator[tuple[str, pa.RecordBatch]]:
    for split, path in files.items():
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_BATCH, columns=_COLUMNS):
                yield split, batch
