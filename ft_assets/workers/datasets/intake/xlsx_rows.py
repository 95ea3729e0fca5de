"""The rows of an Excel file, each as an object of texts as in a CSV. Formulas are read as their stored values."""

import datetime as dt
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import openpyxl
from openpyxl.utils.exceptions import InvalidFileException

from ft_assets.workers.datasets.intake.csv_rows import check_header, line_of
from ft_assets.workers.datasets.intake.file_refusals import damaged
from ft_assets.workers.datasets.intake.office import checked
from ft_assets.workers.datasets.intake.sink import Sink
from ft_assets.workers.datasets.intake.streams import Source
from ft_resources.errors import BadData


def read(source: Source, sink: Sink, _settings: dict[str, Any]) -> None:
    """Write a line for every row below the first one, which names the columns; blank rows and sheets are not rows.

    Several sheets are read one after the other, if their columns are the same. Raises BadData: damage, columns without
    names, sheets with different columns.
    """
    path = checked(source, "xl/workbook.xml", "Excel")
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
    except (KeyError, ValueError, SyntaxError, InvalidFileException):
        raise damaged(source.name, "Excel", "its structure cannot be read") from None
    first: tuple[str, list[str]] | None = None
    count = 0
    with closing(book):
        for sheet in book.worksheets:
            rows = _rows(sheet)
            header = next(rows, None)
            if header is None:
                continue
            check_header(header, source, f"sheet {sheet.title!r:.60}, row 1")
            first = first or (sheet.title, header)
            if header != first[1]:
                raise BadData(
                    f"the sheets {first[0]!r:.60} and {sheet.title!r:.60} have different columns",
                    where=source.name,
                    remedy="Save each sheet as a separate file, and add those with examples.",
                )
            for row in rows:
                if len(row) > len(header):
                    raise BadData(
                        f"a row of sheet {sheet.title!r:.60} has a value beyond the last named column",
                        where=f"{source.name}, row {count + 1} below the header",
                        remedy="Give every column a unique name in the first row.",
                    )
                sink.write(line_of(dict(zip(header, [*row, *[""] * (len(header) - len(row))], strict=True))))
                count += 1
    if not count:
        raise BadData("the file has no rows", where=source.name, remedy="Upload a file with examples in it.")


def _rows(sheet: Any) -> Iterator[list[str]]:
    """The rows with a value in them, without the empty cells at their ends."""
    for values in sheet.iter_rows(values_only=True):
        texts = [_text(value) for value in values]
        while texts and not texts[-1]:
            texts.pop()
        if texts:
            yield texts


def _text(value: Any) -> str:
    """A cell as Excel's CSV has it, dates as ISO 8601."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date().isoformat()
    return value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)
