"""The text of a PDF, with the page on which each piece starts."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pypdfium2

from ft_assets.workers.datasets.intake.file_refusals import damaged
from ft_assets.workers.datasets.intake.sections import Block, is_heading, piece_lines
from ft_assets.workers.datasets.intake.sink import Sink
from ft_assets.workers.datasets.intake.streams import Source
from ft_resources.errors import BadData

_PAGES = 50_000
_END_WITHIN = 4096
# PDFium's mark for a hyphen at a line's end, and its output for glyphs without a meaning.
_HYPHENATED = re.compile("[\ufffe\x02]\r?\n?")
_SENTENCE_ENDS = (".", "!", "?", ":", "”", '"', "…")


def read(source: Source, sink: Sink, settings: dict[str, Any]) -> None:
    """Write the pieces of the document's text. Raises BadData: a password, no text (scanned pages), damage."""
    path = source.seekable()
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - _END_WITHIN, 0))
        if b"%%EOF" not in file.read():
            raise damaged(source.name, "PDF", "its end mark (%%EOF) is not there, so a part is missing")
    written = False
    with closing(_open(path, source)) as document:
        pages = len(document)
        if not 0 < pages <= _PAGES:
            how = "it has no pages that can be found" if not pages else f"it claims to have {pages:,} pages"
            raise damaged(source.name, "PDF", how)
        for line in piece_lines(_blocks(document, source), source.name, settings["chunk_characters"]):
            sink.write(line)
            written = True
    if not written:
        raise BadData(
            f"the PDF has no text in its {pages} page{'s' if pages > 1 else ''}; they may be scanned images",
            where=source.name,
            remedy="Run text recognition (OCR) over it, or save the text as TXT.",
        )


def _open(path: Path, source: Source) -> pypdfium2.PdfDocument:
    try:
        return pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        if "assword" in str(error) or "ecurity" in str(error):
            raise BadData(
                "the PDF is protected by a password", where=source.name, remedy="Save a copy without the password."
            ) from None
        raise damaged(source.name, "PDF", "it has no structure that can be read") from None


def _blocks(document: pypdfium2.PdfDocument, source: Source) -> Iterator[Block]:
    """Paragraphs. They end at a short line that ends a sentence, at headings, and at the end of a page."""
    for number in range(1, len(document) + 1):
        lines = _page_lines(document, number, source)
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


def _page_lines(document: pypdfium2.PdfDocument, number: int, source: Source) -> list[str]:
    try:
        with closing(document[number - 1]) as page, closing(page.get_textpage()) as text_page:
            text = text_page.get_text_range(errors="replace")
    except pypdfium2.PdfiumError:
        raise damaged(source.name, "PDF", f"page {number} cannot be read") from None
    text = _HYPHENATED.sub("", text).replace("\0", "")
    return [line.strip() for line in text.splitlines()]
