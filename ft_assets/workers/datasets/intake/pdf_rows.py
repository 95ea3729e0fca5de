"""The text of a PDF, with the page on which each piece starts."""

import re
from collections.abc import Iterator
from contextlib import closing, nullcontext
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pypdfium2

from ft_assets.workers.datasets.intake.file_refusals import damaged
from ft_assets.workers.datasets.intake.pdf_columns import Character, columns_of, from_right, runs
from ft_assets.workers.datasets.intake.pdf_tables import Tables
from ft_assets.workers.datasets.intake.sections import Block, is_heading, written
from ft_assets.workers.datasets.intake.sink import Sink
from ft_assets.workers.datasets.intake.streams import Source
from ft_resources.errors import BadData

_PAGES = 50_000
# Lines of one side of a page's header or footer.
_IN_MARGIN = 2
_END_WITHIN = 4096
# PDFium's mark for a hyphen at a line's end, and its output for glyphs without a meaning.
_HYPHENATED = re.compile("[\ufffe\x02]\r?\n?")
_SENTENCE_ENDS = (".", "!", "?", ":", "”", '"', "…")


def read(source: Source, sink: Sink, settings: dict[str, Any]) -> dict[str, int]:
    """Write the pieces of the document's text; returns its number of pictures.

    Raises BadData: a password, no text (scanned pages), damage.
    """
    path = source.seekable()
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - _END_WITHIN, 0))
        if b"%%EOF" not in file.read():
            raise damaged(source.name, "PDF", "it is incomplete: its end mark (%%EOF) is missing")
    with closing(_open(path, source)) as document:
        pages = len(document)
        if not 0 < pages <= _PAGES:
            how = "no pages were found in it" if not pages else f"it claims to have {pages:,} pages"
            raise damaged(source.name, "PDF", how)
        with closing(Tables(path)) if settings["pdf_tables"] else nullcontext() as tables:
            found = written(_blocks(document, source, tables), source.name, settings["chunk_characters"], sink)
        pictures = sum(_pictures(document, number) for number in range(pages))
    if not found:
        raise BadData(
            f"the PDF has no text in its {pages} page{'s' if pages > 1 else ''}; they may be scanned images",
            where=source.name,
            remedy="Run text recognition (OCR) over it, or save the text as TXT.",
        )
    return {"pictures": pictures}


def _open(path: Path, source: Source) -> pypdfium2.PdfDocument:
    try:
        return pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        if "assword" in str(error) or "ecurity" in str(error):
            raise BadData(
                "the PDF is protected by a password", where=source.name, remedy="Save a copy without the password."
            ) from None
        raise damaged(source.name, "PDF", "its structure cannot be read") from None


def _blocks(document: pypdfium2.PdfDocument, source: Source, tables: Tables | None) -> Iterator[Block]:
    """Paragraphs. They end at a short line that ends a sentence, at headings, at tables, and at the end of a page."""
    for number in range(1, len(document) + 1):
        for text, is_table in (tables.page(number) if tables else []) or [(_text(document, number, source), False)]:
            if is_table:
                yield Block(text, number, heading=False)
            else:
                yield from _paragraphs([line.strip() for line in text.splitlines()], number)


def _paragraphs(lines: list[str], number: int) -> Iterator[Block]:
    """The paragraphs of lines that follow each other on a page."""
    width = max(map(len, lines), default=0)
    paragraph: list[str] = []
    for line in lines:
        # A line in the middle of a sentence is not a heading, even if it begins with a number.
        heading = is_heading(line) and (not paragraph or paragraph[-1].endswith(_SENTENCE_ENDS))
        if paragraph and (heading or not line):
            yield Block("\n".join(paragraph), number, heading=False)
            paragraph = []
        if heading:
            yield Block(line, number, heading=True)
        elif line:
            paragraph.append(line)
            if line.endswith(_SENTENCE_ENDS) and len(line) < 0.8 * width:
                yield Block("\n".join(paragraph), number, heading=False)
                paragraph = []
    if paragraph:
        yield Block("\n".join(paragraph), number, heading=False)


def _pictures(document: pypdfium2.PdfDocument, index: int) -> int:
    try:
        with closing(document[index]) as page:
            return sum(1 for _ in page.get_objects([pypdfium2.raw.FPDF_PAGEOBJ_IMAGE], max_depth=2))
    except pypdfium2.PdfiumError:
        return 0


def _text(document: pypdfium2.PdfDocument, number: int, source: Source) -> str:
    try:
        with closing(document[number - 1]) as page, closing(page.get_textpage()) as text_page:
            text = text_page.get_text_range(errors="replace")
            text = _by_columns(page, text_page, text) or text
    except pypdfium2.PdfiumError:
        raise damaged(source.name, "PDF", f"page {number} cannot be read") from None
    return _HYPHENATED.sub("", text).replace("\0", "")


def _by_columns(page: pypdfium2.PdfPage, text_page: pypdfium2.PdfTextPage, text: str) -> str:
    """The text column by column where the program wrote it across columns; "" where ``text`` is in order as it is."""
    # Places of whole strings are cheap, and identify nearly all pages that are in one column.
    strings = (_place(number, text_page.get_rect(number)) for number in range(text_page.count_rects()))
    if page.get_rotation() or columns_of([box for _, box in runs(strings)]) is None:
        return ""
    found = list(runs(_characters(text_page)))
    columns = columns_of([box for _, box in found], from_right=from_right(text))
    if columns is None:
        return ""
    regions = [columns.region(box) for _, box in found]
    # A region that is left and entered again was written across columns. Page headers and footers come first or last.
    written = [(region, len(list(each))) for region, each in groupby(regions)]
    for end in (0, 0, -1, -1):
        if written and written[end][1] <= _IN_MARGIN:
            del written[end]
    if len(written) == len({region for region, _ in written}):
        return ""
    starts = [first for first, _ in found] + [text_page.count_chars()]
    starts[0] = 0
    parts = [
        (region, box, text_page.get_text_range(start, end - start, errors="replace"))
        for region, (_, box), (start, end) in zip(regions, found, pairwise(starts), strict=True)
    ]
    parts.sort(key=lambda part: part[0])
    lines: list[str] = []
    for number, (region, box, part) in enumerate(parts):
        goes_on = number and parts[number - 1][0] == region and box.beside(parts[number - 1][1])
        lines.append((" " if goes_on else "\n") + part.strip("\r\n "))
    return "".join(lines).strip("\n")


def _characters(text_page: pypdfium2.PdfTextPage) -> Iterator[Character]:
    """The characters, without blanks, which have no height."""
    for index in range(text_page.count_chars()):
        place = _place(index, text_page.get_charbox(index))
        if place[2] < place[4]:
            yield place


def _place(index: int, place: tuple[float, float, float, float]) -> Character:
    """PDFium counts heights from below."""
    left, bottom, right, top = place
    return index, left, -top, right, -bottom
