"""Classes of a ``datasets`` split by their names: its tables hold numbers, and its features what they stand for."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Importing it takes a second, which the code location should not spend.
    import pyarrow as pa

_ROWS_AT_ONCE = 256


def tables_of(split: Any) -> Iterator["pa.Table"]:
    """The rows of ``split``, a ``datasets.Dataset`` or ``IterableDataset``, as tables with the names of classes."""
    for table in split.with_format("arrow").iter(batch_size=_ROWS_AT_ONCE):
        yield _named(table, split.features or {})


def _named(table: "pa.Table", features: Mapping[str, Any]) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, column in enumerate(table.column_names):
        names = getattr(features.get(column), "names", None)
        if names and pa.types.is_integer(table.schema.field(column).type):
            numbers = table[column].combine_chunks()
            # -1 is no class.
            numbers = pc.if_else(pc.less(numbers, 0), None, numbers)
            table = table.set_column(place, column, pa.array(names, pa.string()).take(numbers))
    return table
