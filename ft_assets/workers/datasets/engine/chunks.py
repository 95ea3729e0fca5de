"""One chunk's way through the kernels, as a task that runs in any process and writes an Arrow file."""

import os
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from blake3 import blake3

from ft_assets.workers.datasets.engine.cache import ChunkCache
from ft_assets.workers.datasets.engine.prepare import PrepareSettings, notes_of, prepare
from ft_resources.canonical import digest


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkTask:
    """Whole lines of a JSON lines file, and where the result goes.

    Args:
        source: local path of the file. The process that works on the lines reads them itself, since passing them costs
            as much as parsing them.
        start: offset of the lines in the file, in bytes.
        size: the lines' size in bytes; 0 if a line is left out as too long.
        ended: whether the last line has its line end.
        target: local path of the Arrow file to write.
        cache: where results are kept between versions; None for no cache.
    """

    source: str
    start: int
    size: int
    ended: bool
    settings: PrepareSettings
    target: str
    cache: ChunkCache | None

    def lines(self) -> bytes:
        """The lines' bytes, read now."""
        with open(self.source, "rb", buffering=0) as file:
            return os.pread(file.fileno(), self.size, self.start)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkResult:
    """A prepared chunk: its Arrow file, its number of examples, and ``prepare``'s notes."""

    path: str
    examples: int
    notes: dict[str, Any]
    cached: bool


def run_chunk(task: ChunkTask) -> ChunkResult:
    """Prepare the chunk or take it from the cache, and write it to ``target``, uncompressed for memory-mapping."""
    lines = task.lines()
    key = cache_key(lines, task)
    return from_cache(task, key) or finished(task, key, prepare(lines, ended=task.ended, settings=task.settings))


def cache_key(lines: bytes, task: ChunkTask) -> str:
    """A digest of everything that determines the chunk's result; empty without a cache."""
    if not task.cache:
        return ""
    return digest({"settings": task.settings.key, "lines": blake3(lines).hexdigest(), "ended": task.ended})


def from_cache(task: ChunkTask, key: str) -> ChunkResult | None:
    """The chunk, written to ``target``, if the cache has it."""
    known = task.cache.get(key) if task.cache else None
    return None if known is None else _written(task, from_ipc(known), cached=True)


def finished(task: ChunkTask, key: str, batch: pa.RecordBatch) -> ChunkResult:
    """The chunk that was prepared now, written to ``target`` and to the cache."""
    if task.cache:
        task.cache.put(key, to_ipc(batch, compression=task.cache.compression))
    return _written(task, batch, cached=False)


def _written(task: ChunkTask, batch: pa.RecordBatch, *, cached: bool) -> ChunkResult:
    with pa.OSFile(task.target, "wb") as file:
        _write(batch, file, None)
    return ChunkResult(path=task.target, examples=batch.num_rows, notes=notes_of(batch.schema), cached=cached)


def open_chunk(path: str) -> pa.RecordBatch:
    """The chunk at ``path``, memory-mapped: unused columns are not read."""
    with pa.memory_map(path) as file:
        return pa.ipc.open_file(file).get_batch(0)


def to_ipc(batch: pa.RecordBatch, compression: str | None = None) -> bytes:
    """``batch`` as the bytes of an Arrow IPC file; equal batches give equal bytes."""
    sink = pa.BufferOutputStream()
    _write(batch, sink, compression)
    return sink.getvalue().to_pybytes()


def _write(batch: pa.RecordBatch, sink: pa.NativeFile, compression: str | None) -> None:
    with pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)


def from_ipc(data: bytes | pa.Buffer) -> pa.RecordBatch:
    """The batch in the bytes of an Arrow IPC file."""
    return pa.ipc.open_file(pa.BufferReader(data)).get_batch(0)
