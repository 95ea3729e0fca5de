"""Public-domain books as plain text: reading them, cleaning them, and finding dialogue in them.

Two kinds of source are understood: Project Gutenberg text files, and the novels of Jane Austen as Debian's
``r-cran-janeaustenr`` carries them (an R "lazy-load" database; unpack the .deb with ``dpkg -x``, no R needed).
"""

import gzip
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

AUSTEN_TITLES = (
    "emma",
    "mansfieldpark",
    "northangerabbey",
    "persuasion",
    "prideprejudice",
    "sensesensibility",
)
_START = re.compile(r"\*\*\* ?START OF (?:THE|THIS) PROJECT GUTENBERG.*?\*\*\*", re.S)
_END = re.compile(r"(?:\*\*\* ?END OF (?:THE|THIS) PROJECT|End of (?:the )?Project Gutenberg)")
_LEGAL = re.compile(r"project gutenberg|gutenberg-tm|e-?text|transcriber|produced by|ebook", re.I)
_QUOTE = re.compile(r'"([^"]{2,600})"')
_PLAIN = str.maketrans({"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"', "\ufeff": "", "\r": ""})


def strip_gutenberg(raw: str) -> str:
    """The book alone: Project Gutenberg's header, licence and any paragraph that speaks of the e-text are cut."""
    text = raw.translate(_PLAIN)
    start = _START.search(text)
    begin = start.end() if start else 0
    end = _END.search(text, begin)
    body = text[begin : end.start() if end else len(text)]
    return "\n\n".join(p for p in paragraphs(body) if not _LEGAL.search(p))


def paragraphs(text: str) -> list[str]:
    """Paragraphs with their line breaks undone, so that a model learns sentences and not a line width."""
    blocks = re.split(r"\n\s*\n", text)
    joined = (" ".join(block.split()).replace("--", " - ").replace("_", "") for block in blocks)
    return [block for block in joined if block]


def gutenberg_books(folder: Path) -> dict[str, str]:
    """Every ``*.txt`` in `folder` whose name starts with a digit (Gutenberg's numbering), by name, cleaned."""
    files = sorted(p for p in folder.glob("*.txt") if p.name[0].isdigit())
    return {p.stem: strip_gutenberg(p.read_text(encoding="utf-8", errors="replace")) for p in files}


def austen_novels(package: Path) -> dict[str, str]:
    """The six novels from an unpacked ``janeaustenr`` folder (the one that holds ``data/Rdata.rdb``).

    The index maps names to (offset, length) in the database; each record is a big-endian size and a zlib
    stream of R's XDR serialization, of which we need one thing only: its character elements, in order.
    """
    index = gzip.decompress((package / "data/Rdata.rdx").read_bytes())
    names = [s for s in _strings(index) if s in AUSTEN_TITLES]
    spans = [struct.unpack(">ii", m) for m in re.findall(rb"\0\0\0\x0d\0\0\0\x02(.{8})", index, re.S)]
    data = (package / "data/Rdata.rdb").read_bytes()
    novels = {}
    for name, (offset, length) in zip(names, spans, strict=False):
        record = zlib.decompress(data[offset + 4 : offset + length])
        lines = list(_strings(record))
        novels[name] = "\n\n".join(paragraphs("\n".join(lines).translate(_PLAIN)))
    return novels


def dialogues(text: str) -> Iterator[list[str]]:
    """Runs of quoted speech in neighbouring paragraphs: at least two turns, each turn one paragraph's speech."""
    run: list[str] = []
    for paragraph in text.split("\n\n"):
        speech = " ".join(q.strip() for q in _QUOTE.findall(paragraph))
        if len(speech) > 8:
            run.append(speech)
        elif len(run) > 1:
            yield run
            run = []
        else:
            run = []
    if len(run) > 1:
        yield run


def _strings(serialized: bytes) -> Iterator[str]:
    """R character elements (CHARSXP: flags 0x?????_09, then a length) of an XDR stream."""
    for match in re.finditer(rb"\0[\x04\0]\0\x09(.{4})", serialized, re.S):
        size = struct.unpack(">i", match.group(1))[0]
        if 0 <= size < 100_000:
            yield serialized[match.end() : match.end() + size].decode("utf-8", errors="replace")
