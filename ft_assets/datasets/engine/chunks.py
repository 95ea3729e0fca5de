"""One chunk's way through the kernels, as a task that runs in any process and leaves an Arrow file."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ft_assets.datasets.engine.cache import ChunkCache
from ft_assets.datasets.engine.prepare import PrepareSettings, notes_of, prepare
from ft_resources.canonical import digest


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkTask:
    """Whole lines of a file of JSON lines, and where the result goes.

    Args:
        lines: the bytes.
        ended: whether the last line has its line end.
        target: local path of the Arrow file to write.
        cache: where results are kept between versions; None to keep none.
    """

    lines: bytes
    ended: bool
    settings: PrepareSettings
    target: str
    cache: ChunkCache | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkResult:
    """A prepared chunk: its Arrow file, the number of examples in it, and ``prepare``'s notes."""

    path: str
    examples: int
    notes: dict[str, Any]
    cached: bool


def run_chunk(task: ChunkTask) -> ChunkResult:
    """Prepare the chunk, or take it from the cache, and leave it uncompressed, to be memory-mapped, at ``target``."""
    key = digest({"settings": task.settings.key, "lines": hashlib.sha256(task.lines).hexdigest(), "ended": task.ended})
    known = task.cache.get(key) if task.cache else None
    batch = from_ipc(known) if known else prepare(task.lines, ended=task.ended, settings=task.settings)
    Path(task.target).write_bytes(to_ipc(batch))
    if task.cache and known is None:
        task.cache.put(key, to_ipc(batch, compression="lz4"))
    return ChunkResult(
        path=task.target, examples=batch.num_rows, notes=notes_of(batch.schema), cached=known is not None
    )


def open_chunk(path: str) -> pa.RecordBatch:
    """The chunk at ``path``, memory-mapped: columns that are not looked at are not read."""
    with pa.memory_map(path) as file:
        return pa.ipc.open_file(file).get_batch(0)


def to_ipc(batch: pa.RecordBatch, compression: str | None = None) -> bytes:
    """``batch`` as the bytes of an Arrow IPC file; equal batches give equal bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def from_ipc(data: bytes) -> pa.RecordBatch:
    """The batch in the bytes of an Arrow IPC file."""
    return pa.ipc.open_file(pa.BufferReader(data)).get_batch(0)
