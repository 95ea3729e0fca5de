"""Parquet; lists and structs keep their structure. The unpacked size is bounded, whatever the footer claims."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ft_assets.workers.datasets.intake.arrow_json import to_lines, without_json_form
from ft_assets.workers.datasets.intake.file_refusals import damaged
from ft_assets.workers.datasets.intake.sink import Sink
from ft_assets.workers.datasets.intake.streams import Source
from ft_resources.errors import BadData

_BATCH_BYTES = 4 << 20
_MOST_ROWS = 8192
_LOOKED_AT = 16


def read(source: Source, sink: Sink, settings: dict[str, Any]) -> None:
    """Write a line for every row. Columns that have no JSON form are not read: their fields are empty objects.

    A file is refused if such a column is one of ``settings["fields"]``, which examples are made from.
    """
    pa.set_cpu_count(1)
    path = source.seekable()
    try:
        # No memory map: a damaged file must not cause a bus error. Pages are verified if they have checksums.
        with pq.ParquetFile(str(path), memory_map=False, page_checksum_verification=True) as file:
            _check(file, source)
            unread = _unread(file, source, settings["fields"])
            columns = [name for name in file.schema_arrow.names if name not in unread]
            for batch in file.iter_batches(batch_size=_batch_rows(file, columns), columns=columns, use_threads=False):
                # Selecting a column "a.b" also reads a column "a" that contains a "b".
                rows = batch.select(columns)
                for name in unread:
                    rows = rows.append_column(name, pa.repeat(pa.scalar({}, pa.struct([])), rows.num_rows))
                lines = to_lines(rows)
                first, last = lines.offset, lines.offset + len(lines)
                ends = memoryview(lines.buffers()[1]).cast("q")
                sink.write(memoryview(lines.buffers()[2])[ends[first] : ends[last]])
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


def _unread(file: pq.ParquetFile, source: Source, fields: list[str]) -> list[str]:
    """The columns that have no JSON form: pictures, binary identifiers. Raises BadData if they are needed."""
    odd = {field.name: kind for field in file.schema_arrow if (kind := without_json_form(field.type))}
    for name, kind in odd.items():
        if name in fields or len(odd) == len(file.schema_arrow):
            raise BadData(
                f"column {name[:60]!r} holds {kind} values, which cannot be written as JSON",
                where=source.name,
                remedy="Save it as text, numbers, lists or structs, or leave it out if nothing is learned from it.",
            )
    return list(odd)


def _batch_rows(file: pq.ParquetFile, columns: list[str]) -> int:
    """Number of rows that unpack to about 4 MiB, by the footer and, as a text may be stored once, by the first rows."""
    groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
    row = max((group.total_byte_size / max(group.num_rows, 1) for group in groups), default=1.0)
    for first in file.iter_batches(batch_size=_LOOKED_AT, columns=columns, use_threads=False):
        row = max(row, first.nbytes / max(len(first), 1))
        break
    return int(min(max(_BATCH_BYTES / max(row, 1.0), 1), _MOST_ROWS))
