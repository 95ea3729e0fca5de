"""Rows that share a key: exact duplicates by content, buckets by band. DuckDB joins them and spills to disk.

Most keys occur once. A bitmap with a few bits per key (a filter that counts to two) finds most of these first, so
DuckDB gets the rows that share a key and about one in twenty of the others.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit, types, uint64

BATCH_ROWS = 100_000
_MEMBER = pa.schema([("place", pa.int64()), ("key", pa.uint64())])
_WORDS = types.Array(types.uint64, 1, "A", readonly=True)
_PLACES = types.Array(types.int64, 1, "A", readonly=True)
_BITS = types.uint64[::1]


@njit(types.void(_WORDS, _PLACES, types.uint8[::1], _BITS), cache=True, nogil=True)
def _note(keys, at, gone, seen):  # type: ignore[no-untyped-def]
    """Set the first of the two bits of each key's slot in ``seen``, and the second if the first was already set.

    Keys are hashes. With sixteen slots per key in ``seen``, one in sixteen keys shares its slot with a different key.
    """
    mask = uint64(32 * len(seen) - 1)
    for row in range(len(keys)):
        if gone[at[row]]:
            continue
        slot = keys[row] & mask
        word, bit = slot >> uint64(5), uint64(1) << ((slot << uint64(1)) & uint64(63))
        seen[word] |= bit | ((seen[word] & bit) << uint64(1))


@njit(types.boolean[::1](_WORDS, _PLACES, types.uint8[::1], _BITS), cache=True, nogil=True)
def _shared(keys, at, gone, seen):  # type: ignore[no-untyped-def]
    mask = uint64(32 * len(seen) - 1)
    found = np.zeros(len(keys), np.bool_)
    for row in range(len(keys)):
        slot = keys[row] & mask
        twice = (seen[slot >> uint64(5)] >> ((slot << uint64(1)) & uint64(63))) & uint64(2)
        found[row] = (twice != 0) & (gone[at[row]] == 0)
    return found


class Features:
    """The feature files, memory-mapped; a row's position is its number over all files, from 0.

    ``rows`` is their number; ``bands`` are the names of the columns of bands.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        # Opened once, keeping only what is used: every band is read twice.
        self._batches = [batch for path in paths for batch in _batches(path)]
        names = self._batches[0].schema.names if self._batches else []
        self.bands = [name for name in names if name.startswith("band_")]
        self.rows = sum(batch.num_rows for batch in self._batches)

    def columns(self, name: str, kind: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(positions, values) batch by batch: int64 [n] and ``kind`` [n], or [n, 4] of ``content``; no copies."""
        start = 0
        for batch in self._batches:
            at = np.arange(start, start + batch.num_rows)
            start += batch.num_rows
            yield at, _values(batch.column(name), kind)


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The used columns of the batches at ``path``; the file is closed afterwards, the memory maps stay."""
    with pa.memory_map(str(path)) as file:
        reader = pa.ipc.open_file(file)
        used = [name for name in reader.schema.names if name == "content" or name.startswith("band_")]
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index).select(used)


def _values(column: pa.Array, kind: Any) -> np.ndarray:
    wide = column.type.byte_width // np.dtype(kind).itemsize
    values = np.frombuffer(column.buffers()[1], kind)[column.offset * wide : (column.offset + len(column)) * wide]
    return values.reshape(-1, wide) if wide > 1 else values


class Joins:
    """A DuckDB database in ``scratch`` that lives as long as the context."""

    def __init__(self, features: Features, scratch: Path, memory_bytes: int, threads: int) -> None:
        import duckdb

        scratch.mkdir(parents=True, exist_ok=True)
        self._file = scratch / "duplicates.duckdb"
        self._file.unlink(missing_ok=True)
        self._features = features
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{max(memory_bytes // 1_000_000, 64)}MB",
            "temp_directory": str(scratch / "spilled"),
            "threads": threads,
            "preserve_insertion_order": False,
        }
        self._database = duckdb.connect(str(self._file), config=settings)
        # Long queries would draw it in the worker's log.
        self._database.execute("SET enable_progress_bar = false")

    def __enter__(self) -> "Joins":
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()
        self._file.unlink(missing_ok=True)

    def exact(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(positions, positions of the first row with the same content), ascending, batch by batch."""
        nothing = np.zeros(self._features.rows, np.uint8)
        schema = pa.schema([("place", pa.int64()), ("key", pa.binary(32))])

        def given() -> Iterator[pa.RecordBatch]:
            yield from self._survivors("content", nothing, self._seen("content", nothing), schema)

        rows = pa.RecordBatchReader.from_batches(schema, given())
        self._database.register("given", rows)
        query = (
            "SELECT place, min(place) OVER (PARTITION BY key) AS first FROM given QUALIFY place <> first ORDER BY place"
        )
        for batch in self._stream(query):
            yield batch.column(0).to_numpy(), batch.column(1).to_numpy()

    def buckets(self, gone: np.ndarray) -> int:
        """Find the buckets of rows that share a band, without rows marked in ``gone``; returns their number.

        ``gone`` is uint8, by position. Hashes of different bands coincide only by chance, so one column of keys is
        enough.
        """

        def given() -> Iterator[pa.RecordBatch]:
            # A thread marks the keys of the next band while those of this band are queried.
            with ThreadPoolExecutor(1, "bands") as ahead:
                noted = [ahead.submit(self._seen, name, gone) for name in self._features.bands[:1]]
                for name, following in zip_longest(self._features.bands, self._features.bands[1:]):
                    seen = noted.pop().result()
                    noted += [ahead.submit(self._seen, following, gone)] if following else []
                    yield from self._survivors(name, gone, seen, _MEMBER)

        self._database.register("given", pa.RecordBatchReader.from_batches(_MEMBER, given()))
        run = self._database.execute
        run("CREATE TABLE pairs AS SELECT place, key FROM given")
        run(
            "CREATE TABLE buckets AS SELECT key, row_number() OVER () - 1 AS bucket "
            "FROM (SELECT key FROM pairs GROUP BY key HAVING count(*) > 1)"
        )
        return int(run("SELECT count(*) FROM buckets").fetchall()[0][0])

    def members(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(positions, buckets) of all rows in the buckets, by position."""
        for batch in self._stream("SELECT place, bucket FROM pairs JOIN buckets USING (key) ORDER BY place, bucket"):
            yield batch.column(0).to_numpy(), batch.column(1).to_numpy()

    def candidates(self) -> int:
        """The number of rows that are in a bucket."""
        query = "SELECT count(DISTINCT place) FROM pairs JOIN buckets USING (key)"
        return int(self._database.execute(query).fetchall()[0][0])

    def _stream(self, query: str) -> pa.RecordBatchReader:
        return self._database.sql(query).to_arrow_reader(BATCH_ROWS)

    def _seen(self, name: str, gone: np.ndarray) -> np.ndarray:
        """The bitmap of the keys in column ``name``."""
        seen = np.zeros(1 << max(int(16 * self._features.rows - 1).bit_length() - 5, 4), np.uint64)
        for at, values in self._features.columns(name, np.uint64):
            _note(_first(values), at, gone, seen)
        return seen

    def _survivors(self, name: str, gone: np.ndarray, seen: np.ndarray, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows whose key in column ``name`` may belong to another row, too."""
        for at, values in self._features.columns(name, np.uint64):
            keep = np.flatnonzero(_shared(_first(values), at, gone, seen))
            keys = pa.array(values[keep]) if values.ndim == 1 else _binary(values[keep])
            yield pa.RecordBatch.from_arrays([pa.array(at[keep]), keys], schema=schema)


def _first(values: np.ndarray) -> np.ndarray:
    return values if values.ndim == 1 else values[:, 0]


def _binary(words: np.ndarray) -> pa.Array:
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(32), len(words), [None, pa.py_buffer(words.tobytes())])


Texts = Callable[[np.ndarray], pa.Array]
"""The texts at some positions (int64, ascending, distinct), in their order."""
