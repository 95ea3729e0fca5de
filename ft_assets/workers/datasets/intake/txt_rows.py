"""Plain text and Markdown; blank lines separate paragraphs."""

import codecs
from collections.abc import Iterator
from functools import partial
from typing import Any

from ft_assets.workers.datasets.intake.file_refusals import SAVE_AS_UTF8
from ft_assets.workers.datasets.intake.kinds import is_markdown
from ft_assets.workers.datasets.intake.markdown_pictures import LONGEST_LINE, Pictures
from ft_assets.workers.datasets.intake.sections import Block, is_heading, written
from ft_assets.workers.datasets.intake.sink import Sink
from ft_assets.workers.datasets.intake.streams import BLOCK, Source
from ft_resources.errors import BadData

# A paragraph of more pieces than this is cut before its end is reached, so that memory stays bounded.
_LONG_PARAGRAPH = 64


def read(source: Source, sink: Sink, settings: dict[str, Any]) -> dict[str, int] | None:
    """Write the pieces of the text; returns the number of pictures of Markdown. Raises BadData for bytes that are not
    UTF-8, and for a blank text."""
    limit = settings["chunk_characters"]
    pictures = Pictures(partial(_lines, source, LONGEST_LINE)) if is_markdown(source.name) else None
    lines = pictures.without() if pictures else _lines(source, BLOCK)
    if not written(_blocks(lines, limit * _LONG_PARAGRAPH), source.name, limit, sink):
        raise BadData("the file has no text", where=source.name, remedy="Upload a file with text in it.")
    return {"pictures": pictures.count} if pictures else None


def _blocks(lines: Iterator[str], most: int) -> Iterator[Block]:
    paragraph: list[str] = []
    size = 0
    for line in lines:
        if line.strip():
            paragraph.append(line.rstrip())
            size += len(line) + 1
        if paragraph and (not line.strip() or size > most):
            yield _block(paragraph)
            paragraph, size = [], 0
    if paragraph:
        yield _block(paragraph)


def _block(lines: list[str]) -> Block:
    text = "\n".join(lines).strip()
    return Block(text, 0, is_heading(text))


def _lines(source: Source, longest: int) -> Iterator[str]:
    """Lines without their ends (\\n, \\r\\n or \\r); a line longer than ``longest`` bytes is returned in parts."""
    decoder, at, rest = codecs.getincrementaldecoder("utf-8")(), 0, ""
    for block in source.blocks():
        pending = len(decoder.getstate()[0])
        try:
            text = rest + decoder.decode(block)
        except UnicodeDecodeError as error:
            raise _not_utf8(source, at - pending + error.start, error.object[error.start]) from None
        at += len(block)
        # A carriage return at the end may be half of a line end.
        held = "\r" if text.endswith("\r") else ""
        *lines, rest = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        rest += held
        yield from lines
        if len(rest) > longest:
            yield rest.removesuffix("\r")
            rest = held
    if decoder.getstate()[0]:
        raise _not_utf8(source, at - len(decoder.getstate()[0]), decoder.getstate()[0][0])
    yield from rest.replace("\r", "\n").split("\n")


def _not_utf8(source: Source, position: int, byte: int) -> BadData:
    return BadData(
        f"byte {position + 1:,} (0x{byte:02x}) is not UTF-8",
        where=source.name,
        remedy=SAVE_AS_UTF8,
    )
