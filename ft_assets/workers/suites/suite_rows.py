"""The rows of a suite's files, each with its place for errors."""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ft_resources.errors import BadRecipe

Row = dict[str, Any]
# For a Parquet file; the largest benchmarks have about ten thousand rows of a few kilobytes.
MOST_ROWS, MOST_BYTES = 1_000_000, 1 << 30
_AT_ONCE = 1 << 26
# Of a text in a file of items.
MOST_CHARACTERS = 65_536
_ENDINGS = (".jsonl", ".json", ".csv", ".parquet")


def read_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Each row of a CSV, Parquet or JSON lines file, with its place. Raises BadRecipe for any other file."""
    read = {".csv": _csv_rows, ".parquet": _parquet_rows}.get(path.suffix, _json_rows)
    yield from read(path)


def item_rows(
    name: str, files: Mapping[str, Path], where: str, id_column: str | None
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Id, place and columns of each row of file ``name``; rows are numbered from 1 if ``id_column`` is None.

    Raises BadRecipe for a file that is missing, empty or unreadable, and for rows without a unique id.
    """
    if name not in files or not name.endswith(_ENDINGS):
        raise BadRecipe(
            f"file: {name!r} is not a file of items in this folder",
            where=where,
            remedy=f"Name a {', '.join(_ENDINGS)} file next to the task file.",
        )
    seen: set[str] = set()
    for number, (place, row) in enumerate(read_rows(files[name]), start=1):
        found = str(number) if id_column is None else _value(row, id_column, place)
        if not isinstance(found, str | int) or not str(found) or str(found) in seen:
            remedy = "Give each item its own id, and name its column in id."
            raise BadRecipe("this item has no unique id", where=place, remedy=remedy)
        seen.add(str(found))
        yield str(found), place, row
    if not seen:
        raise BadRecipe("there are no items", where=where, remedy=f"Add items to {name}.")


def text_of(row: Mapping[str, Any], column: str, where: str, *, most: int = MOST_CHARACTERS) -> str:
    """The text in a column. Raises BadRecipe if it is missing, empty or longer than ``most`` characters."""
    text = _value(row, column, where)
    if not isinstance(text, str) or not text.strip():
        raise BadRecipe(f"{column} is empty or not a text", where=where, remedy="Give every item one.")
    if len(text) > most:
        raise BadRecipe(f"{column} is longer than {most:,} characters", where=where, remedy="Shorten it.")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise BadRecipe(f"{column} holds half of a surrogate pair", where=where, remedy="Correct its text.")
    return text


def _value(row: Mapping[str, Any], column: str, where: str) -> Any:
    if column not in row:
        remedy = "Name the column in the task file, or add it."
        raise BadRecipe(f"there is no column {column!r}", where=where, remedy=remedy)
    return row[column]


def template_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """The same with column names that Jinja accepts: in CSV, ``Best Answer`` becomes ``Best_Answer``."""
    for where, row in read_rows(path):
        if path.suffix != ".csv":
            yield where, row
            continue
        named = {re.sub(r"\W", "_", name): value for name, value in row.items()}
        if len(named) < len(row):
            raise BadRecipe("two columns have the same name", where=where, remedy="Rename them in the header.")
        yield where, named


def with_shared(rows: Iterable[tuple[str, Row]], path: Path, by: str) -> Iterator[tuple[str, Row]]:
    """``rows`` with the columns of the file's row that has the same value in column ``by``; a row's own columns stay.

    Raises BadRecipe for a row without such a partner, and for a value that the file has twice.
    """
    others: dict[str, Row] = {}
    for where, row in read_rows(path):
        if others.setdefault(str(_value(row, by, where)), row) is not row:
            raise BadRecipe(f"an earlier row has this {by}", where=where, remedy="Keep one row for each value.")
    for where, row in rows:
        other = others.get(str(_value(row, by, where)))
        if other is None:
            raise BadRecipe(f"{path.name} has no row with this item's {by}", where=where, remedy="Add it.")
        yield where, other | row


def csv_as_parquet(path: Path, target: Path) -> None:
    """Write the CSV file ``path`` as Parquet at ``target``, every value a text: no numbers are inferred."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [row for _, row in template_rows(path)]
    table = pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in rows[0]})
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, target)


def _csv_rows(path: Path) -> Iterator[tuple[str, Row]]:
    remedy = "Save it as UTF-8 CSV with one header line, and quote texts with commas or line breaks."
    reader = None
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            names = reader.fieldnames or ()
            if len(set(names)) < len(names):
                # Otherwise the last one would silently count.
                raise BadRecipe(
                    "two columns have the same name", where=f"{path}, line 1", remedy="Rename one in the header."
                )
            for row in reader:
                where = f"{path}, line {reader.line_num}"
                if None in row or None in row.values():
                    raise BadRecipe("this row has more or fewer fields than the header", where=where, remedy=remedy)
                yield where, row
    except (csv.Error, UnicodeDecodeError) as error:
        line = f", line {reader.line_num}" if reader else ""
        raise BadRecipe(f"this is not CSV ({error})", where=f"{path}{line}", remedy=remedy) from error


def _json_rows(path: Path) -> Iterator[tuple[str, Row]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                raise BadRecipe("this line is not a JSON object", where=where, remedy="Write one JSON object a line.")
            yield where, row


def _parquet_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """The decoded size is limited, as a few hundred bytes of Parquet can encode one text a million times."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = size = 0
    try:
        with pq.ParquetFile(path) as file:
            _refuse_more_than(MOST_ROWS, file.metadata.num_rows, "rows", path)
            groups = [file.metadata.row_group(each).total_byte_size for each in range(file.metadata.num_row_groups)]
            # A single value may fill a row group, and every row may have that one.
            at_once = max(1, min(512, _AT_ONCE // max(1, *groups, 1)))
            for batch in file.iter_batches(batch_size=at_once):
                size += batch.nbytes
                _refuse_more_than(MOST_BYTES, size, "bytes of values", path)
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}, row {number}", row
    except (pa.ArrowException, OSError) as error:
        remedy = "Save the table as Parquet again."
        raise BadRecipe(f"this is not Parquet ({str(error)[:200]})", where=str(path), remedy=remedy) from error


def _refuse_more_than(most: int, found: int, what: str, path: Path) -> None:
    if found > most:
        remedy = "Keep the items that are scored, and the columns that the task reads."
        raise BadRecipe(f"the table has more than {most:,} {what}", where=str(path), remedy=remedy)
