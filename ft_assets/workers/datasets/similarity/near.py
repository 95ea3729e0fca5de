"""Exact and near-duplicates of an upload: candidates by MinHash bands, each verified by exact Jaccard similarity."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from ft_assets.workers.datasets.similarity.hashing import text_buffers
from ft_assets.workers.datasets.similarity.jaccard import listed, walk
from ft_assets.workers.datasets.similarity.joins import Features, Joins, Texts
from ft_assets.workers.datasets.similarity.wording import SLOTS, count_texts

DUPLICATES = pa.schema(
    [
        pa.field("at", pa.int64(), nullable=False),
        pa.field("kept", pa.int64(), nullable=False),
        pa.field("similarity", pa.float64(), nullable=False),
        pa.field("exact", pa.bool_(), nullable=False),
    ]
)
"""A row at ``at`` that repeats an earlier one at ``kept``; ``exact`` if their contents are equal."""

Answers = Callable[[np.ndarray], pa.Array]
"""Returns the two answers of each row at ascending positions: all the first ones, then all the second ones."""

_FEWEST_ROWS, _MOST_ROWS, _COUNTED_ROWS = 64, 65_536, 1024


@dataclass(frozen=True, slots=True)
class Wording:
    """In how many ``texts`` (uint16, see SLOTS) each window is. A window in more than ``most`` is common wording."""

    texts: np.ndarray
    most: int

    @classmethod
    def none(cls) -> Self:
        return cls(np.zeros(2, np.uint16), 0)

    @classmethod
    def of(cls, sample: np.ndarray, texts_at: Texts, fewest: int, share: float) -> Self:
        """The wording of the texts at the positions ``sample`` (at most 65,535): common is what more than ``fewest`` of
        them have, and more than this share."""
        counted = np.zeros(SLOTS, np.uint16)
        for start in range(0, len(sample), _COUNTED_ROWS):
            count_texts(*text_buffers(texts_at(sample[start : start + _COUNTED_ROWS])), counted)
        return cls(counted, max(fewest, int(share * len(sample))))


@dataclass(frozen=True, slots=True)
class Found:
    """``duplicates`` (DUPLICATES); and pairs of rows (int64) that stay: the row ``at`` differs from the row at ``kin``
    in its answer only, or is near another row that does."""

    duplicates: pa.Table
    at: np.ndarray
    kin: np.ndarray


def find_duplicates(
    features: Sequence[Path],
    texts_at: Texts,
    threshold: float | None,
    scratch: Path,
    memory_bytes: int,
    *,
    wording: Wording | None = None,
    answers_at: Answers | None = None,
    linked: bool = False,
    threads: int = 1,
) -> Found:
    """The rows that repeat an earlier one, in the order of ``at``.

    Rows are processed in the order of their positions. A row with the content of an earlier row is its exact duplicate.
    Any other row is compared with the *kept* rows that share a bucket with it (an equal band hash), lowest positions
    first. It is a near-duplicate of the first one whose set of character 5-grams is at least ``threshold`` similar,
    with which it shares their own wording (outside of common ``wording``), and which has the same answers. So each
    duplicate is a verified duplicate of a row that stays; the result depends neither on how rows are cut into files nor
    on memory or threads. A bucket lists at most 32 kept rows, and later rows are compared only with those 32. So
    100,000 rows of one template take linear time (a near pair is missed only if *all* its common buckets are full of
    rows that are near neither). Empty texts are never near-duplicates.

    Args:
        features: Arrow IPC files with ``content`` (binary 32) and ``band_00``… (uint64); positions count their rows.
        texts_at: the texts at some positions.
        threshold: of similarity, the same as for ``band_hashes``; None finds only exact duplicates.
        scratch: a folder for joins that do not fit into memory; its temporary files are removed.
        memory_bytes: the memory limit, excluding the memory maps of ``features``. DuckDB gets half; on top come 8 bytes
            for each pair of kept row and bucket.
        wording: what many texts share; None for nothing.
        answers_at: the answers at some positions; None where rows have none.
        linked: for rows that stay. ``kept`` of a near-duplicate is the first row of its cluster, which holds all rows
            reachable by verified pairs, and ``similarity`` is its largest verified one. (At most the first 32 rows of a
            bucket are compared with later ones.) Answers do not matter.
        threads: DuckDB's number of threads.
    """
    found = Features(features)
    with Joins(found, scratch, memory_bytes // 2, threads) as joins:
        copies = list(joins.exact())
        copy = np.concatenate([at for at, _ in copies]) if copies else np.zeros(0, np.int64)
        original = np.concatenate([kept for _, kept in copies]) if copies else np.zeros(0, np.int64)
        if threshold is None or not found.rows:
            return Found(_table(copy, original, np.ones(len(copy)), np.ones(len(copy), np.bool_)), copy[:0], copy[:0])
        gone = np.zeros(found.rows, np.uint8)
        gone[copy] = 1
        buckets = joins.buckets(gone)
        rows = _Rows(texts_at, answers_at or _none)
        near = _Walk.over(joins, buckets, rows, threshold, wording or Wording.none(), linked, memory_bytes // 8)
    similarity = np.ones(len(copy))
    if not linked and len(near.at):
        # A copy of a row that is near an earlier one repeats that earlier row.
        place = np.minimum(np.searchsorted(near.at, original), len(near.at) - 1)
        moved = near.at[place] == original
        similarity[moved] = near.similarity[place[moved]]
        original = np.where(moved, near.kept[place], original)
    exact = np.concatenate([np.ones(len(copy), np.bool_), np.zeros(len(near.at), np.bool_)])
    at, kept = np.concatenate([copy, near.at]), np.concatenate([original, near.kept])
    return Found(_table(at, kept, np.concatenate([similarity, near.similarity]), exact), near.like, near.kin)


def _none(positions: np.ndarray) -> pa.Array:
    return pa.array([""] * (2 * len(positions)))


def _table(at: np.ndarray, kept: np.ndarray, similarity: np.ndarray, exact: np.ndarray) -> pa.Table:
    order = np.argsort(at, kind="stable")
    columns = [pa.array(column[order]) for column in (at, kept, similarity, exact)]
    return pa.Table.from_arrays(columns, schema=DUPLICATES)


@dataclass(frozen=True, slots=True)
class _Rows:
    texts_at: Texts
    answers_at: Answers


@dataclass(frozen=True, slots=True)
class _Near:
    at: np.ndarray
    kept: np.ndarray
    similarity: np.ndarray
    like: np.ndarray
    kin: np.ndarray


class _Walk:
    """The pass over the rows in buckets, by position; rows are numbered from 0 in that order."""

    def __init__(self, rows: int, buckets: int) -> None:
        self.at = np.zeros(rows, np.int64)
        self.sizes, self.owns, self.parents, self.kin = (np.zeros(rows, np.int32) for _ in range(4))
        self.similarities = np.zeros(rows, np.float64)
        self.heads, self.filled = np.full(buckets, -1, np.int32), np.zeros(buckets, np.uint8)
        self.next_entries, self.entry_rows = np.zeros(0, np.int32), np.zeros(0, np.int32)
        self.entries = 0

    @classmethod
    def over(
        cls,
        joins: Joins,
        buckets: int,
        rows: _Rows,
        threshold: float,
        wording: Wording,
        linked: bool,
        batch_bytes: int,
    ) -> _Near:
        state = cls(joins.candidates(), buckets)
        members = _Members(joins.members())
        first, wanted = 0, 1024
        while (batch := members.take(wanted)) is not None:
            at, starts, ids = batch
            state.at[first : first + len(at)] = at
            earlier = listed(ids, state.heads, state.next_entries, state.entry_rows, first)
            positions = np.concatenate([state.at[earlier], at])
            offsets, data = text_buffers(rows.texts_at(positions))
            answers, said = text_buffers(rows.answers_at(positions))
            state._make_room(len(ids))
            state.entries = walk(
                offsets, data, answers, said, earlier, first, starts, ids, threshold, linked, state.heads, state.filled,
                state.next_entries, state.entry_rows, state.entries, state.sizes, state.owns, state.parents, state.kin,
                state.similarities, wording.texts, wording.most,
            )  # fmt: skip
            first += len(at)
            # As many rows as fit into the text buffer; the batch size does not change the result.
            size = max(int(offsets[-1] - offsets[0] + answers[-1] - answers[0]), 1)
            wanted = int(min(max(len(at) * batch_bytes // size, _FEWEST_ROWS), _MOST_ROWS, 4 * wanted))
        return state._result(first)

    def _make_room(self, more: int) -> None:
        needed = self.entries + more
        if needed > len(self.entry_rows):
            size = max(needed, len(self.entry_rows) * 3 // 2)
            self.next_entries = np.resize(self.next_entries, size) if self.entries else np.zeros(size, np.int32)
            self.entry_rows = np.resize(self.entry_rows, size) if self.entries else np.zeros(size, np.int32)

    def _result(self, rows: int) -> _Near:
        parents, kin = (_roots(each[:rows]) for each in (self.parents, self.kin))
        near, like = (np.flatnonzero(each != np.arange(rows)) for each in (parents, kin))
        return _Near(self.at[near], self.at[parents[near]], self.similarities[near], self.at[like], self.at[kin[like]])


def _roots(parents: np.ndarray) -> np.ndarray:
    while True:
        above = parents[parents]
        if np.array_equal(above, parents):
            return parents
        parents = above


class _Members:
    """Splits the stream of (position, bucket) into batches of whole rows."""

    def __init__(self, stream: Iterator[tuple[np.ndarray, np.ndarray]]) -> None:
        self._stream: Iterator[tuple[np.ndarray, np.ndarray]] | None = stream
        self._at, self._buckets = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def take(self, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Positions of at most the next ``rows`` rows, the start of each row's buckets, and those buckets."""
        while True:
            starts = np.flatnonzero(np.diff(self._at, prepend=-1))
            # The last row may continue in the stream's next batch.
            if len(starts) > rows or self._stream is None:
                break
            self._read_on()
        if not len(starts):
            return None
        end = int(starts[rows]) if len(starts) > rows else len(self._at)
        starts = starts[:rows]
        batch = self._at[starts], np.append(starts, end).astype(np.int64), self._buckets[:end].copy()
        self._at, self._buckets = self._at[end:], self._buckets[end:]
        return batch

    def _read_on(self) -> None:
        assert self._stream is not None
        more = next(self._stream, None)
        if more is None:
            self._stream = None
        else:
            self._at = np.concatenate([self._at, more[0]])
            self._buckets = np.concatenate([self._buckets, more[1]])
