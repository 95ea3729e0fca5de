"""Parquet, whose lists and structs keep their structure. What it unpacks to is bounded, whatever its footer claims."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ft_assets.datasets.intake.arrow_json import NoJsonForm, to_lines
from ft_assets.datasets.intake.refusals import damaged
from ft_assets.datasets.intake.sink import Sink
from ft_assets.datasets.intake.streams import Source
from ft_resources.errors import BadData

_BATCH_BYTES = 4 << 20
_MOST_ROWS = 8192
_LOOKED_AT = 16


def read(source: Source, sink: Sink, _settings: dict[str, Any]) -> None:
    """Write a line for every row."""
    pa.set_cpu_count(1)
    path = source.seekable()
    try:
        # No memory map: a damaged file must not become a bus error. Pages are checked where they have checksums.
        with pq.ParquetFile(str(path), memory_map=False, page_checksum_verification=True) as file:
            _check(file, source)
            for batch in file.iter_batches(batch_size=_batch_rows(file), use_threads=False):
                lines = to_lines(batch)
                first, last = lines.offset, lines.offset + len(lines)
                ends = memoryview(lines.buffers()[1]).cast("q")
                sink.write(memoryview(lines.buffers()[2])[ends[first] : ends[last]])
    except NoJsonForm as error:
        raise BadData(
            f"a column of type {error} has no JSON form",
            where=source.name,
            remedy="Keep columns of texts, numbers, lists and structs.",
        ) from None
    except (MemoryError, BadData):
        raise
    except (pa.ArrowException, OSError, ValueError, UnicodeError) as error:
        if "ncrypt" in str(error):
            raise BadData(
                "the Parquet file is encrypted",
                where=source.name,
                remedy="Save it without encryption; uploads are kept private.",
            ) from None
        raise damaged(source.name, "Parquet", "its footer or its pages cannot be read") from None


def _check(file: pq.ParquetFile, source: Source) -> None:
    columns = len(file.schema_arrow.names)
    leaves = file.metadata.num_columns
    if leaves > source.limits.columns:
        raise BadData(
            f"the file has {leaves:,} columns, more than the {source.limits.columns:,} that are allowed",
            where=source.name,
            remedy="Keep the columns that hold the examples.",
        )
    if len(set(file.schema_arrow.names)) < columns:
        raise BadData("two columns have the same name", where=source.name, remedy="Name each column once.")
    if not file.metadata.num_rows or not columns:
        raise BadData("the file has no rows", where=source.name, remedy="Upload a file with examples in it.")


def _batch_rows(file: pq.ParquetFile) -> int:
    """Rows that unpack to about 4 MiB, going by the footer and, as a text may be stored once, by the first rows."""
    groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
    row = max((group.total_byte_size / max(group.num_rows, 1) for group in groups), default=1.0)
    for first in file.iter_batches(batch_size=_LOOKED_AT, use_threads=False):
        row = max(row, first.nbytes / max(len(first), 1))
        break
    return int(min(max(_BATCH_BYTES / max(row, 1.0), 1), _MOST_ROWS))
