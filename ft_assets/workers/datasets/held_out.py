"""All rows that a dataset's versions ever held out, so that no later version trains on them or on their near copies.

Rows are remembered as hashes and never as texts: an erased version must not live on in a later one. Each version's
artifact holds the memory of earlier versions together with its own holdout.
"""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.engine.chunks import open_chunk
from ft_assets.workers.datasets.engine.local import Mapper
from ft_assets.workers.datasets.forms.content_keys import flat_texts
from ft_assets.workers.datasets.split import units_of

FILE = "held_out.arrow"
NEAR = 0.9
"""Texts this similar are near copies, as by default in ``duplicates``; ``bands`` are for this threshold."""
SCHEMA = pa.schema(
    [
        pa.field("content", pa.uint64(), nullable=False),
        pa.field("unit", pa.uint64(), nullable=False),
        pa.field("bands", pa.binary(64), nullable=False),
        pa.field("sketch", pa.binary(128), nullable=False),
    ]
)
"""``content``: the first 8 bytes of the content key. ``unit``: see ``unit_keys``. ``bands``: 16 uint32. ``sketch``:
256 values of 4 bits, of as many permutations (Li and König 2010, "b-Bit Minwise Hashing")."""

_BANDS, _VALUES, _BITS = 16, 256, 4
# The estimate of a similarity has a standard deviation of 0.02; with a margin of three, one copy in 700 is missed at
# NEAR.
_MARGIN = 0.06
# A text that is repeated with small changes fills a bucket; only this many of its rows are compared, as in ``near``.
_COMPARED = 16
_PAIRS = 1 << 16
_ROWS_IN_BATCH = 65_536
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)

TextsAt = Callable[[np.ndarray], pa.Array]


class HeldOut:
    """A memory; empty for a dataset's first version. The file stays mapped: hashes are read when they are compared."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows

    @classmethod
    def open(cls, path: Path | None) -> Self:
        if path is None:
            return cls(SCHEMA.empty_table())
        with pa.memory_map(str(path)) as file:
            return cls(pa.ipc.open_file(file).read_all())

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def has(self, name: Literal["content", "unit"], keys: np.ndarray) -> np.ndarray:
        """Which of these keys (uint64 ``[n]``, as in SCHEMA) belong to a remembered row: bool ``[n]``."""
        known = self.rows.column(name).combine_chunks()
        found: np.ndarray = pc.is_in(pa.array(keys), value_set=known).to_numpy(zero_copy_only=False)
        return found

    def without(self, contents: np.ndarray) -> "HeldOut":
        """The rows whose ``content`` is none of these."""
        return HeldOut(self.rows.filter(pc.invert(pc.is_in(self.rows.column("content"), value_set=pa.array(contents)))))

    def write(self, path: Path, more: Iterator[pa.RecordBatch]) -> None:
        """Write a file with these rows and those of ``more`` (SCHEMA), each content once."""
        rows = pa.concat_tables([self.rows, pa.Table.from_batches(more, schema=SCHEMA)])
        contents = rows.column("content").to_numpy()
        first = np.sort(np.unique(contents, return_index=True)[1])
        with pa.ipc.new_file(str(path), SCHEMA) as writer:
            writer.write_table(rows.take(pa.array(first)).combine_chunks(), max_chunksize=_ROWS_IN_BATCH)


class NearIndex:
    """Finds the near copies of remembered rows."""

    def __init__(self, memory: HeldOut) -> None:
        bands = _matrix(memory.rows.column("bands").combine_chunks(), np.uint32)
        self._sketches = _matrix(memory.rows.column("sketch").combine_chunks(), np.uint8)
        keys = _keys(bands).ravel()
        order = np.argsort(keys, kind="stable")
        self._sorted, self._rows = keys[order], (order // _BANDS).astype(np.int32)
        # Most keys belong to no remembered row, which a lookup in this table, at most an eighth full, shows.
        slots = 1 << max(8 * len(keys) - 1, 1).bit_length()
        self._shift = np.uint64(64 - slots.bit_length() + 1)
        self._seen = np.zeros(slots, np.bool_)
        self._seen[self._slots(keys)] = True

    def near(self, bands: np.ndarray, texts_at: TextsAt, threshold: float = NEAR) -> np.ndarray:
        """Texts (bool ``[n]``) that are near copies of a remembered row, by an estimate of their similarity.

        ``bands`` are the texts' (uint32 ``[n, 16]``); ``texts_at`` gives the texts at ascending numbers.
        """
        keys, found = _keys(bands), np.zeros(len(bands), np.bool_)
        at, band = np.nonzero(self._seen[self._slots(keys)])
        wanted = keys[at, band]
        start = np.searchsorted(self._sorted, wanted)
        count = np.minimum(np.searchsorted(self._sorted, wanted, "right") - start, _COMPARED)
        at, start, count = at[count > 0], start[count > 0], count[count > 0]
        if not len(at):
            return found
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        pairs = np.unique(np.stack([np.repeat(at, count), self._rows[np.repeat(start, count) + within]], 1), axis=0)
        texts, which = np.unique(pairs[:, 0], return_inverse=True)
        sketches = sketches_of(texts_at(texts))
        for first in range(0, len(pairs), _PAIRS):
            part = slice(first, first + _PAIRS)
            alike = similarity(sketches[which[part]], self._sketches[pairs[part, 1]])
            found[pairs[part, 0][alike >= threshold - _MARGIN]] = True
        return found

    def _slots(self, keys: np.ndarray) -> np.ndarray:
        slots: np.ndarray = (keys * _MULTIPLIER) >> self._shift
        return slots


def unit_keys(units: np.ndarray, grouped: np.ndarray, policy: DatasetPolicy) -> np.ndarray:
    """``units`` (see ``units_of``) as they are remembered: equal values of different fields differ."""
    field = hashlib.sha256(f"field:{policy.split.group_by or ''}".encode()).digest()
    return np.where(grouped, units ^ np.uint64(int.from_bytes(field[:8])), units)


def content_words(contents: pa.FixedSizeBinaryArray) -> np.ndarray:
    """``content`` as in SCHEMA of content keys."""
    return _matrix(contents, np.uint64)[:, 0].copy()


def near_bands(texts: pa.Array) -> np.ndarray:
    """``bands`` as in SCHEMA: uint32 ``[n, 16]``."""
    from ft_assets.workers.datasets.similarity.folded import bare_texts
    from ft_assets.workers.datasets.similarity.minhash import band_hashes

    return band_hashes(bare_texts(texts), NEAR).astype(np.uint32)


def bands_of(chunk: pa.RecordBatch, policy: DatasetPolicy) -> np.ndarray:
    """``near_bands`` of a prepared chunk's rows; taken from its columns if the policy uses the same bands."""
    from ft_assets.workers.datasets.similarity.minhash import banding

    if policy.duplicates.near == "off" or banding(policy.duplicates.threshold).bands != _BANDS:
        return near_bands(flat_texts(chunk))
    columns = [chunk.column(f"band_{band:02d}").to_numpy().astype(np.uint32) for band in range(_BANDS)]
    return np.stack(columns, 1)


def sketches_of(texts: pa.Array) -> np.ndarray:
    """``sketch`` as in SCHEMA: uint8 ``[n, 128]``, two values a byte."""
    from ft_assets.workers.datasets.similarity.folded import bare_texts
    from ft_assets.workers.datasets.similarity.minhash import signatures

    bare = bare_texts(texts)
    values = np.concatenate([signatures(bare, seed) for seed in (1, 2)], axis=1) & np.uint32((1 << _BITS) - 1)
    packed: np.ndarray = (values[:, ::2] << np.uint32(_BITS) | values[:, 1::2]).astype(np.uint8)
    return packed


def similarity(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Estimates of the Jaccard similarities of pairs of sketches (uint8 ``[n, 128]`` each): float ``[n]``."""
    differ = some ^ others
    equal = ((differ >> _BITS) == 0).sum(1) + ((differ & ((1 << _BITS) - 1)) == 0).sum(1)
    by_chance = 1 / (1 << _BITS)
    estimates: np.ndarray = (equal / _VALUES - by_chance) / (1 - by_chance)
    return estimates


def remember(
    before: HeldOut, chunks: Iterator[tuple[str, np.ndarray]], policy: DatasetPolicy, map_chunks: Mapper, path: Path
) -> None:
    """Write to ``path`` what ``before`` knows and the holdout's rows, given as (path of a prepared chunk, rows in
    it)."""
    tasks = ((chunk, rows, policy) for chunk, rows in chunks)
    before.write(path, map_chunks(_hashes_in_chunk, tasks))


def _hashes_in_chunk(task: tuple[str, np.ndarray, DatasetPolicy]) -> pa.RecordBatch:
    """The given rows of a chunk as SCHEMA (runs in any process)."""
    path, rows, policy = task
    chunk = open_chunk(path).take(pa.array(rows))
    groups = chunk.column("group")
    grouped = pc.not_equal(groups, "").to_numpy(zero_copy_only=False)
    columns = [
        pa.array(content_words(chunk.column("content"))),
        pa.array(unit_keys(units_of(chunk.column("prompt"), groups), grouped, policy)),
        _binary(bands_of(chunk, policy)),
        _binary(sketches_of(flat_texts(chunk))),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _keys(bands: np.ndarray) -> np.ndarray:
    """uint64 ``[n, 16]``: the band's number above its hash."""
    keys: np.ndarray = bands.astype(np.uint64) | np.arange(_BANDS, dtype=np.uint64) << np.uint64(32)
    return keys


def _matrix(column: pa.FixedSizeBinaryArray, kind: type) -> np.ndarray:
    """``[n, values of a row]``, without a copy."""
    width = column.type.byte_width // np.dtype(kind).itemsize
    values: np.ndarray = np.frombuffer(column.buffers()[1] or b"", kind)
    return values[column.offset * width : (column.offset + len(column)) * width].reshape(-1, width)


def _binary(values: np.ndarray) -> pa.FixedSizeBinaryArray:
    """Each row of ``values`` as bytes."""
    width = values.shape[1] * values.itemsize
    data = pa.py_buffer(np.ascontiguousarray(values).tobytes())
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(values), [None, data])
