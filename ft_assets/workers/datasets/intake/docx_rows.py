"""The text of a Word document: its paragraphs, headings and tables in their order."""

from collections.abc import Iterator
from typing import Any

import docx
from docx.document import Document
from docx.table import Table

from ft_assets.workers.datasets.intake.file_refusals import damaged
from ft_assets.workers.datasets.intake.office import checked
from ft_assets.workers.datasets.intake.sections import Block, is_heading, written
from ft_assets.workers.datasets.intake.sink import Sink
from ft_assets.workers.datasets.intake.streams import Source
from ft_resources.errors import BadData

_DRAWN = "{http://schemas.openxmlformats.org/drawingml/2006/main}blip"


def read(source: Source, sink: Sink, settings: dict[str, Any]) -> dict[str, int]:
    """Write the pieces of the document's text; returns its number of pictures. Raises BadData: damage, no text."""
    try:
        document = docx.Document(str(checked(source, "word/document.xml", "Word")))
    except (KeyError, ValueError, SyntaxError):
        raise damaged(source.name, "Word", "its structure cannot be read") from None
    if not written(_blocks(document), source.name, settings["chunk_characters"], sink):
        raise BadData("the document has no text", where=source.name, remedy="Upload a file with text in it.")
    return {"pictures": sum(1 for _ in document.element.body.iter(_DRAWN))}


def _blocks(document: Document) -> Iterator[Block]:
    for each in document.iter_inner_content():
        if isinstance(each, Table):
            rows = [" | ".join(" ".join(cell.text.split()) for cell in row.cells) for row in each.rows]
            text, heading = "\n".join(row for row in rows if row.strip(" |")), False
        else:
            text = each.text.strip()
            style = (each.style.name or "") if each.style is not None else ""
            heading = style.startswith(("Heading", "Title")) or is_heading(text)
        if text:
            yield Block(text, 0, heading)
