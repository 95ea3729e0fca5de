"""The text of an HTML page: headings, paragraphs, lists, tables and code in their order.

Everything around a page's text (scripts, forms, navigation, header and footer of the site) is left out.
"""

from collections.abc import Iterator
from typing import Any

from lxml import etree, html

from ft_assets.workers.datasets.intake.file_refusals import damaged
from ft_assets.workers.datasets.intake.sections import Block, written
from ft_assets.workers.datasets.intake.sink import Sink
from ft_assets.workers.datasets.intake.streams import Source
from ft_resources.errors import BadData

_LEFT_OUT = frozenset((
    *("script", "style", "noscript", "template", "head", "nav", "header", "footer", "aside", "form", "button"),
    *("select", "iframe", "object", "svg", "math"),
))  # fmt: skip
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
# Everything else is part of a line of text.
_BLOCKS = _HEADINGS.union(
    ("html", "body", "main", "article", "section", "div", "p", "ul", "ol", "li", "dl", "dt", "dd", "blockquote", "pre"),
    ("table", "thead", "tbody", "tfoot", "tr", "caption", "figure", "figcaption", "address", "details", "summary"),
    ("hr", "fieldset", "center"),
)
# Without `huge_tree` the parser would silently drop what is nested more than 256 deep.
_DEEPEST = 500


def read(source: Source, sink: Sink, settings: dict[str, Any]) -> dict[str, int]:
    """Write the pieces of the page's text; returns its number of pictures. Raises BadData: not UTF-8, no text."""
    data = b"".join(source.blocks())
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadData(
            f"byte {error.start + 1:,} (0x{data[error.start]:02x}) is not UTF-8",
            where=source.name,
            remedy="Save the page as UTF-8.",
        ) from None
    try:
        # As bytes: a declaration of another encoding in the page would be refused beside text.
        page = html.document_fromstring(
            text.encode(), parser=html.HTMLParser(encoding="utf-8", no_network=True, huge_tree=True)
        )
    except etree.ParserError:
        page = None
    if page is None or not written(_blocks(page, source), source.name, settings["chunk_characters"], sink):
        raise BadData("the page has no text", where=source.name, remedy="Upload a file with text in it.")
    return {"pictures": sum(1 for _ in page.iter("img", "picture", "canvas"))}


def _blocks(page: Any, source: Source) -> Iterator[Block]:
    line: list[str] = []

    def ended(tag: str) -> Iterator[Block]:
        text = "".join(line).strip() if tag == "pre" else " ".join("".join(line).split())
        line.clear()
        if text:
            yield Block(text, 0, tag in _HEADINGS)

    depth = 0
    left_out = 0
    open_blocks: list[str] = ["body"]
    for event, element in etree.iterwalk(page, events=("start", "end", "comment", "pi")):
        tag = element.tag if isinstance(element.tag, str) else ""
        if event == "start":
            depth += 1
            if depth > _DEEPEST:
                raise damaged(source.name, "HTML", f"its elements are nested more than {_DEEPEST} deep")
            left_out += tag in _LEFT_OUT
            if not left_out and tag in _BLOCKS:
                yield from ended(open_blocks[-1])
                open_blocks.append(tag)
            if not left_out:
                line.append("\n" if tag == "br" else " | " * (tag in ("td", "th") and bool("".join(line).strip())))
                line.append(element.text or "")
        elif event == "end":
            depth -= 1
            if not left_out and tag in _BLOCKS:
                yield from ended(tag)
                open_blocks.pop()
            left_out -= tag in _LEFT_OUT
        if event != "start" and not left_out:
            line.append(element.tail or "")
    yield from ended("body")
