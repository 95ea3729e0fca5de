"""Pages of a PDF that have ruled tables, column by column and from top to bottom: text, and tables row by row."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from ft_assets.workers.datasets.intake.pdf_columns import Box, columns_of, from_right, runs

# Lines that only frame or underline something make a table of one cell.
_LEAST_ROWS, _LEAST_COLUMNS = 2, 2


class Tables:
    """The tables of the PDF at ``path``."""

    def __init__(self, path: Path) -> None:
        import pdfplumber

        self._document: Any = None
        # A file that the other library opens may be too damaged for this one, which raises many kinds of errors.
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
                tables = [(Box(*table.bbox), _rows(table)) for table in page.find_tables()]
                tables = sorted(((box, rows) for box, rows in tables if rows), key=lambda each: each[0].top)
                return list(_parts(page, tables)) if tables else []
            finally:
                page.close()
        return []


def _parts(page: Any, tables: list[tuple[Box, list[str]]]) -> Iterator[tuple[str, bool]]:
    """The texts and tables of each column, or of the page, from top to bottom; text beside a table follows it."""

    def is_text(each: dict[str, Any]) -> bool:
        return each["object_type"] == "char" and not any(box.holds(_box(each)) for box, _ in tables)

    texts = page.filter(is_text)
    seen = [each for each in texts.chars if not each["text"].isspace()]
    found = [box for _, box in runs((0, *_box(each)) for each in seen)] + [box for box, _ in tables]
    columns = columns_of(found, from_right=from_right("".join(each["text"] for each in seen)))
    for region in sorted({columns.region(box) for box in found}) if columns else [None]:

        def within(each: dict[str, Any], top: float, bottom: float, region: object = region) -> bool:
            box = _box(each)
            return top <= box.middle < bottom and (columns is None or columns.region(box) == region)

        top = -inf
        for box, rows in tables:
            if columns is None or columns.region(box) == region:
                yield texts.filter(partial(within, top=top, bottom=box.top)).extract_text() or "", False
                yield "\n".join(rows), True
                top = max(top, box.top)
        yield texts.filter(partial(within, top=top, bottom=inf)).extract_text() or "", False


def _box(each: dict[str, Any]) -> Box:
    return Box(each["x0"], each["top"], each["x1"], each["bottom"])


def _rows(table: Any) -> list[str]:
    """The rows of a table, a line each, with its cells as in tables of other formats; none if it is too small."""
    cells = [[" ".join((cell or "").split()) for cell in row] for row in table.extract()]
    cells = [row for row in cells if any(row)]
    if len(cells) < _LEAST_ROWS or max(map(len, cells)) < _LEAST_COLUMNS:
        return []
    return [" | ".join(row) for row in cells]
