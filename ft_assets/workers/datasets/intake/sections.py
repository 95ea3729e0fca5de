"""Plain text in pieces that end at headings, paragraphs or sentences, and sections of at most 20 pieces."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import orjson

from ft_assets.workers.datasets.intake.sink import Sink

# The split keeps a section on one side, so a book without headings must still yield many.
SECTION_PIECES = 20
_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])[\"'”’)\]]*\s+")
_HEADING_CHARACTERS = 100
_NUMBER_WORDS = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|first|second|third|fourth|fifth|last"
_HEADING = re.compile(
    r"#{1,6}\s+\S.*"
    r"|(?i:chapter|part|book|volume|section|act|scene|appendix|letter|stave|canto)\s+"
    rf"(?:(?i:[ivxlcdm]+|\d+|the|{_NUMBER_WORDS})|[A-Z])\b.{{0,80}}"
    r"|(?i:preface|foreword|introduction|prologue|epilogue|contents|conclusion|abstract|references)\.?"
    r"|\d{1,3}(?:\.\d{1,3})*\.?\s+[A-Z].*[^.!?]"
    r"|[IVXLCDM]{1,8}\.?"
)


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph or heading, and the page on which it starts (0 if there are no pages)."""

    text: str
    page: int
    heading: bool


def is_heading(line: str) -> bool:
    """Whether a line by itself is a heading: marked or numbered as one, or all in capitals."""
    if not 0 < len(line) <= _HEADING_CHARACTERS or "\n" in line:
        return False
    if line[-1] in ",;:" or (line[-1] in ".!?" and len(line) > 60):
        return False
    return bool(_HEADING.fullmatch(line)) or (line.isupper() and sum(map(str.isalpha, line)) >= 3)


def written(blocks: Iterable[Block], name: str, limit: int, sink: Sink) -> bool:
    """Write the pieces of ``blocks`` (see ``piece_lines``); whether there were any."""
    found = False
    for line in piece_lines(blocks, name, limit):
        sink.write(line)
        found = True
    return found


def piece_lines(blocks: Iterable[Block], name: str, limit: int) -> Iterator[bytes]:
    """The JSON lines ``{"text", "source", "page"}`` of each section; a piece has at most ``limit`` characters.

    ``source`` is the file's name and a digest of the section's text: a change elsewhere in the file does not change it.
    """
    for section in _sections(blocks, limit):
        digest = hashlib.sha256("\0".join(text for text, _ in section).encode("utf-8", "surrogatepass")).hexdigest()
        for text, page in section:
            yield _line({"text": text, "source": f"{name}#{digest[:12]}", "page": page})


def _sections(blocks: Iterable[Block], limit: int) -> Iterator[list[tuple[str, int]]]:
    pieces: list[tuple[str, int]] = []
    parts: list[str] = []
    size = page = prose = 0
    for block in blocks:
        # Consecutive headings, as in a table of contents, stay together with what follows them.
        ends_section = block.heading and prose > limit // 4
        if parts and (ends_section or size + 2 + len(block.text) > limit):
            pieces.append(("\n\n".join(parts), page))
            parts, size, prose = [], 0, 0
        if pieces and (ends_section or len(pieces) >= SECTION_PIECES):
            yield pieces
            pieces = []
        *full, rest = _cut(block.text, limit)
        for text in full:
            pieces.append((text, block.page))
            if len(pieces) == SECTION_PIECES:
                yield pieces
                pieces = []
        if not parts:
            page = block.page
        parts.append(rest)
        size += len(rest) + (2 if size else 0)
        prose += 0 if block.heading else len(rest)
    if parts:
        pieces.append(("\n\n".join(parts), page))
    if pieces:
        yield pieces


def _cut(text: str, limit: int) -> list[str]:
    """``text`` in parts of at most ``limit`` characters, cut at ends of sentences, else at spaces, else anywhere."""
    parts, start = [], 0
    while len(text) - start > limit:
        window = text[start : start + limit]
        ends = [match.end() for match in _SENTENCE_END.finditer(window)]
        if ends and ends[-1] > limit // 4:
            end = ends[-1]
        else:
            space = max(window.rfind(" "), window.rfind("\n"), window.rfind("\t"))
            end = space + 1 if space > limit // 4 else limit
        parts.append(window[:end].strip())
        start += end
    parts.append(text[start:].strip())
    return [part for part in parts if part] or [""]


def _line(row: dict[str, str | int]) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
