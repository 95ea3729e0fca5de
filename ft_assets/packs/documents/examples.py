"""The rows of a dataset split, as record batches."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_BATCH = 512
_COLUMNS = ("id", "row", "messages", "chosen", "rejected", "text", "tools")


def read_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file, in order: ``id``, ``row`` and, as far as the file has them, ``messages``,
    ``chosen``, ``rejected``, ``text`` and ``tools``."""
    with pq.ParquetFile(path) as file:
        columns = [name for name in _COLUMNS if name in file.schema_arrow.names]
        yield from file.iter_batches(batch_size=_BATCH, columns=columns)
