"""Pages of a PDF that have ruled tables, from top to bottom: text as it stands, tables row by row."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

# Lines that only frame or underline something make a table of one cell.
_LEAST_ROWS, _LEAST_COLUMNS = 2, 2


class Tables:
    """The tables of the PDF at ``path``."""

    def __init__(self, path: Path) -> None:
        import pdfplumber

        self._document: Any = None
        # What another library opens may be too damaged for this one, whose errors are of many kinds.
        with suppress(Exception):
            self._document = pdfplumber.open(path)

    def close(self) -> None:
        """Close the file."""
        if self._document is not None:
            self._document.close()

    def page(self, number: int) -> list[tuple[str, bool]]:
        """The texts and tables of page ``number`` (from 1) in their order on the page, and whether each is a table;
        nothing if the page has no table, or cannot be laid out."""
        with suppress(Exception):
            page = self._document.pages[number - 1]
            try:
                tables = [(table.bbox, _rows(table)) for table in page.find_tables()]
                tables = [(box, rows) for box, rows in tables if rows]
                return list(_parts(page, tables)) if tables else []
            finally:
                page.close()
        return []


def _parts(page: Any, tables: list[tuple[Any, list[str]]]) -> Iterator[tuple[str, bool]]:
    """What stands above each table over the whole width, and the table; then what stands below the last."""
    _, top, _, end = page.bbox
    for (_, above, _, below), rows in sorted(tables, key=lambda each: each[0][1]):
        yield _text(page, top, above), False
        yield "\n".join(rows), True
        top = max(top, below)
    yield _text(page, top, end), False


def _text(page: Any, top: float, bottom: float) -> str:
    """The text of the characters whose middle is between two heights, as a table's cells have theirs."""

    def within(each: dict[str, Any]) -> bool:
        return each["object_type"] == "char" and top <= (each["top"] + each["bottom"]) / 2 < bottom

    return page.filter(within).extract_text() or ""


def _rows(table: Any) -> list[str]:
    """The rows of a table, a line each, with its cells as in tables of other formats; none if it is too small."""
    cells = [[" ".join((cell or "").split()) for cell in row] for row in table.extract()]
    cells = [row for row in cells if any(row)]
    if len(cells) < _LEAST_ROWS or max(map(len, cells)) < _LEAST_COLUMNS:
        return []
    return [" | ".join(row) for row in cells]
