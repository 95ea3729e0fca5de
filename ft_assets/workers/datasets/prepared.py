"""All examples of an upload, prepared: memory-mapped chunks addressed by one continuous position."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from ft_assets.workers.datasets.columns import EXAMPLES
from ft_assets.workers.datasets.engine.chunks import open_chunk
from ft_assets.workers.datasets.forms.content_keys import answer_texts, flat_texts
from ft_assets.workers.datasets.reporting.report import Place, Role
from ft_assets.workers.offsets import offsets_of


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedChunk:
    """An Arrow file written by ``run_chunk``, and its rows' origin; ``row_offset`` is added to its row numbers."""

    path: str
    examples: int
    file: str
    role: Role
    row_offset: int


class PreparedRows:
    """The rows of ``chunks``. A position counts examples from 0 in the chunks' order."""

    def __init__(self, chunks: Sequence[PreparedChunk]) -> None:
        self.chunks = list(chunks)
        self.starts = offsets_of(np.array([chunk.examples for chunk in self.chunks], np.int64))

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def paths(self) -> list[Path]:
        """The Arrow files, in order."""
        return [Path(chunk.path) for chunk in self.chunks]

    def batches(self) -> Iterator[tuple[int, PreparedChunk, pa.RecordBatch]]:
        """(position of the first row, chunk, its columns), chunk by chunk."""
        for start, chunk in zip(self.starts.tolist(), self.chunks, strict=False):
            yield start, chunk, open_chunk(chunk.path)

    def place(self, position: int) -> Place:
        """Where the row at ``position`` is in the upload."""
        index = self._chunk_of(np.array([position]))[0]
        chunk = self.chunks[index]
        row = _opened(chunk.path).column("row")[position - int(self.starts[index])].as_py()
        return Place(file=chunk.file, row=row + chunk.row_offset)

    def take(self, positions: np.ndarray) -> pa.RecordBatch:
        """The EXAMPLES at ascending ``positions``."""
        batches = [_opened(path).select(EXAMPLES.names).take(pa.array(rows)) for path, rows in self.by_chunk(positions)]
        empty = pa.RecordBatch.from_pylist([], schema=EXAMPLES)
        return pa.concat_batches(batches).replace_schema_metadata(None) if batches else empty

    def texts_at(self, positions: np.ndarray) -> pa.StringArray:
        """The flat texts at ascending ``positions``."""
        return flat_texts(self.take(positions))

    def answers_at(self, positions: np.ndarray) -> pa.StringArray:
        """The ``answer_texts`` at ascending ``positions``: all the first ones, then all the second ones."""
        return pa.concat_arrays(answer_texts(self.take(positions)))

    def content_at(self, positions: np.ndarray) -> pa.FixedSizeBinaryArray:
        """The content keys at ascending ``positions``."""
        return self.column_at("content", positions)

    def column_at(self, name: str, positions: np.ndarray) -> pa.Array:
        """Column ``name`` at ascending ``positions``."""
        parts = [_opened(path).column(name).take(pa.array(rows)) for path, rows in self.by_chunk(positions)]
        kind = pa.binary(32) if name == "content" else EXAMPLES.field(name).type
        return pa.concat_arrays(parts) if parts else pa.array([], kind)

    def by_chunk(self, positions: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """(path of a chunk, rows in it) for ascending ``positions``."""
        bounds = np.searchsorted(positions, self.starts)
        for index in np.flatnonzero(np.diff(bounds)).tolist():
            yield self.chunks[index].path, positions[bounds[index] : bounds[index + 1]] - self.starts[index]

    def _chunk_of(self, positions: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.starts, positions, side="right") - 1


@lru_cache(maxsize=256)
def _opened(path: str) -> pa.RecordBatch:
    """Opening reads a page of metadata; the data that is used is mapped."""
    return open_chunk(path)
