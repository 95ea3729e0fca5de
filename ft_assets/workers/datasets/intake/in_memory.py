"""Rows in memory as an upload: JSON lines of dicts, or of tables of any library that speaks Arrow."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from ft_assets.workers.datasets.intake.arrow_json import NoJsonForm, to_lines
from ft_assets.workers.datasets.intake.class_names import tables_of
from ft_resources.errors import BadData

_WHERE = "rows in memory"
# How pandas names an index in Arrow.
_INDEX = "__index_level_"


def write_rows(rows: Any, file: Path) -> None:
    """Write ``rows`` to ``file`` as JSON lines.

    Args:
        rows: dicts; or a ``datasets.Dataset`` or ``IterableDataset``, a data frame of pandas or polars, or another
            table with Arrow's stream (``__arrow_c_stream__``), whose nulls in structs are left out as those of Parquet.

    Raises BadData for rows that have no JSON form.
    """
    with file.open("wb") as out:
        try:
            for table in _tables(rows):
                kept = table.select([name for name in table.column_names if not name.startswith(_INDEX)])
                for batch in kept.to_batches():
                    out.writelines(line.as_buffer() for line in to_lines(batch))
        except (NoJsonForm, pa.ArrowException) as error:
            raise BadData(
                f"these rows cannot be written as JSON ({str(error).splitlines()[0][:200]})",
                where=_WHERE,
                remedy="Give a list of dicts that hold texts, numbers, lists and dicts.",
            ) from error
        if not _is_table(rows):
            out.writelines(_lines(rows))


def _is_table(rows: Any) -> bool:
    """Whether ``rows`` come as tables; several splits of a dataset, by name, are none."""
    return hasattr(rows, "__arrow_c_stream__") or (hasattr(rows, "with_format") and not isinstance(rows, Mapping))


def _tables(rows: Any) -> Iterator[pa.Table]:
    if hasattr(rows, "__arrow_c_stream__"):
        yield pa.table(rows)
    elif _is_table(rows):
        yield from tables_of(rows)


def _lines(rows: Iterable[Any]) -> Iterator[bytes]:
    if isinstance(rows, Mapping) or not isinstance(rows, Iterable):
        raise BadData(
            f"this is {type(rows).__name__}, not rows",
            where=_WHERE,
            remedy="Give a list of dicts, a data frame or one split of a dataset.",
        )
    for number, row in enumerate(rows, start=1):
        where = f"{_WHERE}, row {number}"
        if not isinstance(row, Mapping):
            raise BadData(f"this is {type(row).__name__}, not a dict", where=where, remedy="Give a dict for each row.")
        try:
            yield orjson.dumps(dict(row), option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)
        except TypeError as error:
            raise BadData(
                f"this row cannot be written as JSON ({str(error)[:200]})",
                where=where,
                remedy="Give texts, numbers, lists and dicts.",
            ) from error
